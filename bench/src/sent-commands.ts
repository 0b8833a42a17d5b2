/**
 * Counts the commands that clients send. INFO also counts commands inside scripts, so this uses MONITOR.
 * MONITOR costs Redis a line per command, so only scenarios about cost use it.
 */
import { Redis as IoRedis } from "ioredis";

const MARK = "ropeway-bench-mark";

/** Counts the commands of all other clients. */
export class SentCommands {
  readonly #asking: IoRedis;
  readonly #monitor: IoRedis;
  #count = 0;
  #marks = 0;
  #onMark: () => void = () => {};

  /** Starts counting. */
  static async start(url: string): Promise<SentCommands> {
    const asking = new IoRedis(url);
    return new SentCommands(asking, (await asking.monitor()) as IoRedis);
  }

  private constructor(asking: IoRedis, monitor: IoRedis) {
    this.#asking = asking;
    this.#monitor = monitor;
    monitor.on("monitor", (_time: string, args: readonly string[], source: string) => {
      if (source === "lua") return;
      if (args[0]?.toLowerCase() === "echo" && args[1] === MARK) {
        this.#marks++;
        this.#onMark();
      } else if (args[0]?.toLowerCase() !== "info") this.#count++;
    });
  }

  /** The number of commands so far, including all that Redis executed before this call. */
  async count(): Promise<number> {
    const marks = this.#marks + 1;
    const marked = new Promise<void>((resolve) => {
      this.#onMark = () => {
        if (this.#marks >= marks) resolve();
      };
    });
    await this.#asking.echo(MARK);
    await marked;
    return this.#count;
  }

  close(): void {
    this.#monitor.disconnect();
    this.#asking.disconnect();
  }
}
