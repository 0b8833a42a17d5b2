// Nothing the testkit starts outlives the test process, however that ends.
//
//   test process ----- pipe -----> guardian (sh, own session)
//     "+ 123"  watch process group 123      "- 123"  it is gone
//     "d /tmp/x"  remove that folder too
//
// The guardian sits in `read`. The kernel closes the pipe when the test process ends, even by
// SIGKILL, and only then does the guardian act: SIGKILL to every group still on its list, then the
// folders. Exit handlers could not do that, and a parent-death signal exists on Linux only.
//
// Invariant: a process is on the list from the tick that spawned it (the write into the pipe is
// done inside `watchGroup`, before anything is awaited) until its exit was seen.
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
  // It must never keep the test process alive: it is there for when that one is gone.
  child.unref();
  (child.stdin as unknown as { unref(): void }).unref();
  return child;
}

/** Has the process group killed when this process ends. */
export function watchGroup(pid: number): void {
  tell(`+ ${pid}`);
}

/** The process group ended by itself; its number may be someone else's soon. */
export function forgetGroup(pid: number): void {
  tell(`- ${pid}`);
}

/** Has the folder removed when this process ends; harmless if it is gone by then. */
export function watchFolder(path: string): void {
  tell(`d ${path}`);
}
