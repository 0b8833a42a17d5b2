import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { TestkitError } from "./errors.ts";
import { forgetGroup, watchGroup } from "./guardian.ts";
import { LineLog } from "./line-log.ts";

/** How a process ended: by itself with a code, or by a signal. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Where and with what a process runs. */
export interface SpawnOptions {
  readonly cwd?: string;
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * A child process in a group of its own that the guardian kills if we die. Signals go to the whole
 * group, so that a wrapper script and the program behind it share one fate.
 */
export class WatchedProcess {
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: LineLog = new LineLog();
  /** Standard output and standard error together. */
  readonly log: LineLog = new LineLog();
  readonly exited: Promise<Exit>;
  #running = true;

  /** Resolves once the program runs; rejects when it cannot be executed. */
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
      throw new TestkitError("START_FAILED", "a child without pid or pipes");
    }
    this.pid = pid;
    this.stdin = stdin;
    // Writing to a process that is gone is told by `exited`, not by a crash of the test.
    stdin.on("error", () => {});
    this.stdout.feed(stdout);
    this.log.feed(stdout);
    this.log.feed(stderr);
    // "close", not "exit": by then every line it printed has been read.
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

  /** Sends a signal to the group; a process that is gone already is no error. */
  signal(signal: NodeJS.Signals): void {
    if (!this.#running) return;
    try {
      process.kill(-this.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }

  /** SIGKILL, and waits until it is gone. */
  async kill9(): Promise<Exit> {
    this.signal("SIGKILL");
    return this.exited;
  }

  /** SIGTERM (also when stopped by SIGSTOP), SIGKILL if that does not end it within `withinMs`. */
  async terminate(withinMs = 5000): Promise<Exit> {
    this.signal("SIGTERM");
    this.signal("SIGCONT");
    return this.exitWithin(withinMs);
  }

  /** Waits for the end; SIGKILL if it does not come within `withinMs`. */
  async exitWithin(withinMs: number): Promise<Exit> {
    const timer = setTimeout(() => this.signal("SIGKILL"), withinMs);
    const exit = await this.exited;
    clearTimeout(timer);
    return exit;
  }
}
