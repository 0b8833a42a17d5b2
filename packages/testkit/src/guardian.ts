// Kills everything the testkit started when the test process ends, even by SIGKILL.
//
//   test process ----- pipe -----> guardian (sh, own session)
//     "+ 123"  add process group 123      "- 123"  remove it
//     "d /tmp/x"  add that folder
//
// The guardian blocks in `read`. The kernel closes the pipe when the test process ends. The guardian
// then sends SIGKILL to every group on its list and removes the folders. Exit handlers do not run
// after SIGKILL, and a parent-death signal exists on Linux only.
//
// Invariant: a process is on the list from the tick that spawned it (`watchGroup` writes to the pipe
// before anything is awaited) until its exit was seen.
import { type ChildProcess, spawn } from "node:child_process";

const SCRIPT = `
groups=' ' folders=
while read -r verb what; do
  case $verb in
    +) groups="$groups$what " ;;
    -) groups="\${groups%% $what *} \${groups#* $what }" ;;
    d) folders="$folders$what
" ;;
  esac
done
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
printf '%s' "$folders" | while read -r folder; do rm -rf -- "$folder"; done
`;

let guardian: ChildProcess | undefined;

function tell(line: string): void {
  guardian ??= start();
  guardian.stdin?.write(`${line}\n`);
}

function start(): ChildProcess {
  const child = spawn("sh", ["-c", SCRIPT], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  // The guardian must not keep the test process alive.
  child.unref();
  (child.stdin as unknown as { unref(): void }).unref();
  return child;
}

/** Kills the process group when this process ends. */
export function watchGroup(pid: number): void {
  tell(`+ ${pid}`);
}

/** Removes a process group that has ended, because the system may reuse its number. */
export function forgetGroup(pid: number): void {
  tell(`- ${pid}`);
}

/** Removes the folder when this process ends, if it still exists. */
export function watchFolder(path: string): void {
  tell(`d ${path}`);
}
