/** The process of the syncer, which is killed repeatedly. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const FILE = fileURLToPath(new URL("./syncer.mjs", import.meta.url));

/** A running syncer. */
export class Syncer {
  readonly #child: ChildProcess;
  #output = "";

  constructor(options: object) {
    const stdio = ["ignore", "pipe", "inherit"] as const;
    this.#child = spawn(process.execPath, [FILE, JSON.stringify(options)], { stdio: [...stdio] });
    this.#child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#output += text;
    });
  }

  /** Whether it has reached the stream. */
  get reachedStream(): boolean {
    return this.#output.includes("status COMMANDRUNNING");
  }

  /** The reason of its failure, if it failed. */
  get failure(): string | undefined {
    return /^failed .*$/m.exec(this.#output)?.[0];
  }

  /** Ends it at once (SIGKILL) or gracefully (SIGTERM). */
  async end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, "exit");
    this.#child.kill(signal);
    await exited;
  }
}
