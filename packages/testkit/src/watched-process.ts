import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { TestkitError } from "./errors.ts";
import { forgetGroup, watchGroup } from "./guardian.ts";
import { LineLog } from "./line-log.ts";

/** The exit code of a process, or the signal that ended it. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** The working directory and environment of a process. */
export interface SpawnOptions {
  readonly cwd?: string;
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * A child process in its own process group, which the guardian kills when this process ends. Signals
 * go to the whole group, so that they reach both a wrapper script and its program.
 */
export class WatchedProcess {
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: LineLog = new LineLog();
  /** Standard output and standard error together. */
  readonly log: LineLog = new LineLog();
  readonly exited: Promise<Exit>;
  #running = true;

  /** Resolves when the program runs. Throws `START_FAILED` if it cannot be executed. */
  static async start(
    command: readonly string[],
    { cwd, env }: SpawnOptions = {},
  ): Promise<WatchedProcess> {
    const [file = "", ...args] = command;
    const child = spawn(file, args, {
      stdio: "pipe",
      detached: true,
      env: { ...process.env, ...env },
      ...(cwd === undefined ? {} : { cwd }),
    });
    if (child.pid !== undefined) watchGroup(child.pid);
    try {
      await once(child, "spawn");
    } catch (cause) {
      throw new TestkitError("START_FAILED", `cannot run ${file}: ${(cause as Error).message}`, {
        cause,
      });
    }
    return new WatchedProcess(child);
  }

  private constructor(child: ChildProcess) {
    const { pid, stdin, stdout, stderr } = child;
    if (pid === undefined || !stdin || !stdout || !stderr) {
      throw new TestkitError("START_FAILED", "the child process has no pid or no pipes");
    }
    this.pid = pid;
    this.stdin = stdin;
    // A write to an ended process must not crash the test. `exited` reports the end.
    stdin.on("error", () => {});
    this.stdout.feed(stdout);
    this.log.feed(stdout);
    this.log.feed(stderr);
    // "close", not "exit", because by then all its lines have been read.
    this.exited = new Promise((resolve) => {
      child.once("exit", () => {
        this.#running = false;
        forgetGroup(pid);
      });
      child.once("close", (code, signal) => resolve({ code, signal }));
    });
  }

  get running(): boolean {
    return this.#running;
  }

  /** Sends a signal to the group. Does nothing if the process has ended. */
  signal(signal: NodeJS.Signals): void {
    if (!this.#running) return;
    try {
      process.kill(-this.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }

  /** Sends SIGKILL and waits for the exit. */
  async kill9(): Promise<Exit> {
    this.signal("SIGKILL");
    return this.exited;
  }

  /** Sends SIGTERM, also to a process stopped by SIGSTOP. Sends SIGKILL after `withinMs`. */
  async terminate(withinMs = 5000): Promise<Exit> {
    this.signal("SIGTERM");
    this.signal("SIGCONT");
    return this.exitWithin(withinMs);
  }

  /** Waits for the exit. Sends SIGKILL after `withinMs`. */
  async exitWithin(withinMs: number): Promise<Exit> {
    const timer = setTimeout(() => this.signal("SIGKILL"), withinMs);
    const exit = await this.exited;
    clearTimeout(timer);
    return exit;
  }
}
