/** The sandboxes of a worker: as many as jobs have run at the same time, reused for later jobs. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { ClosedError, InvalidOptionError } from "@ropeway/core";
import { resolveSandboxOptions, type SandboxOptions } from "../options.ts";
import type { JobContext } from "../worker/attempt.ts";
import { Sandbox } from "./sandbox.ts";

/** Runs jobs with the handlers of a file. */
export class SandboxPool {
  readonly #file: URL;
  readonly #options: Required<SandboxOptions>;
  readonly #idle: Sandbox[] = [];
  readonly #all = new Set<Sandbox>();
  #closed = false;

  constructor(file: URL, options: SandboxOptions) {
    if (file.protocol !== "file:" || !existsSync(fileURLToPath(file))) {
      throw new InvalidOptionError("handlers", file.href, "the URL of a file that exists");
    }
    this.#file = file;
    this.#options = resolveSandboxOptions(options);
  }

  /** A handler for the worker: runs the job in an idle sandbox. */
  readonly handler = async (job: JobContext): Promise<unknown> => {
    // Middleware or a schema may have taken longer than close() waits: nobody would end a sandbox that starts now.
    if (this.#closed) throw new ClosedError("the worker");
    const sandbox = this.#take();
    try {
      return await sandbox.run(job);
    } finally {
      // For the worker, a job that timed out has ended while its handler still runs; run() ends later.
      if (sandbox.alive) this.#idle.push(sandbox);
      else this.#all.delete(sandbox);
    }
  };

  /** Ends all sandboxes. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#idle.length = 0;
    await Promise.all([...this.#all].map((sandbox) => sandbox.kill("its worker was closed")));
    this.#all.clear();
  }

  #take(): Sandbox {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.alive) return idle;
      this.#all.delete(idle);
    }
    const sandbox = new Sandbox(this.#file, this.#options);
    this.#all.add(sandbox);
    return sandbox;
  }
}
