/** A server program as our child: in a session of its own, so that Ctrl-C in the terminal is for us alone. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { within } from "@ropeway/core/internal";

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class ServerProcess {
  readonly pid: number;
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, pid: number) {
    this.#child = child;
    this.pid = pid;
    this.exited = once(child, "exit").then(([code, signal]) => ({ code, signal }));
  }

  /** Starts the program; what it prints is added to the log. `noted` is called with the pid at once. */
  static async start(
    command: readonly string[],
    log: string,
    noted: (pid: number) => void,
  ): Promise<ServerProcess> {
    const [program = "", ...args] = command;
    const output = openSync(log, "a", 0o600);
    try {
      const child = spawn(program, args, { stdio: ["ignore", output, output], detached: true });
      // Nothing is awaited before this, so that the guard knows the server even if this process is killed now.
      if (child.pid !== undefined) noted(child.pid);
      await once(child, "spawn");
      return new ServerProcess(child, child.pid as number);
    } finally {
      closeSync(output);
    }
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** SIGKILL. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** SIGTERM, and SIGKILL if that has not ended it in time; returns whether it had to be killed. */
  async end(withinMs: number): Promise<"ended" | "killed"> {
    this.#child.kill("SIGTERM");
    try {
      await within(this.exited, { timeoutMs: withinMs });
      return "ended";
    } catch {
      this.#child.kill("SIGKILL");
      await this.exited;
      return "killed";
    }
  }
}

/** "code 1" or "SIGKILL", for a sentence. */
export function describeExit({ code, signal }: Exit): string {
  return signal ?? `code ${code}`;
}
