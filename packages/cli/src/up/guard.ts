/**
 * Ends the servers that this process started when the process ends, even by SIGKILL.
 *
 *   up ------- pipe -------> guard (sh, in a session of its own)
 *        "4711"  guard that process          "-"  it is gone
 *
 * The guard sits in `read`. The kernel closes the pipe when we end, even by SIGKILL, and only then
 * does the guard act: SIGTERM, on which a Redis saves and exits. A parent-death signal would be
 * simpler but exists on Linux only, and exit handlers do not run on SIGKILL.
 */
import { type ChildProcess, spawn } from "node:child_process";

const SCRIPT = `
pid=-
while read -r line; do pid=$line; done
[ "$pid" = - ] || kill -TERM "$pid" 2>/dev/null
`;

export class Guard {
  readonly #shell: ChildProcess;

  constructor() {
    this.#shell = spawn("/bin/sh", ["-c", SCRIPT], {
      stdio: ["pipe", "ignore", "ignore"],
      detached: true, // Ctrl-C in the terminal is for us, not for it
    });
    this.#shell.unref();
    // Without a guard, a kill -9 leaves the server running until the next start ends it.
    this.#shell.on("error", () => {});
    this.#shell.stdin?.on("error", () => {});
    (this.#shell.stdin as unknown as { unref?(): void } | null)?.unref?.();
  }

  /** The process to end when we end. */
  watch(pid: number): void {
    this.#shell.stdin?.write(`${pid}\n`);
  }

  /** The process has ended; its pid may soon belong to another process. */
  forget(): void {
    this.#shell.stdin?.write("-\n");
  }

  /** Ends the guard. */
  close(): void {
    this.forget();
    this.#shell.stdin?.end();
  }
}
