/** Clears and fills queues, and reads the memory that Redis uses. */
import { connect, defineScript, type Redis, type Script } from "@ropeway/core";
import { QueueStore } from "@ropeway/jobs/internal";
import type { Stage } from "../../stage.ts";

const fillScript: Script = defineScript(new URL("../../../lua/jobs-fill.lua", import.meta.url));
const AT_ONCE = 20_000;

/** A control connection of one contender. */
export class Control {
  readonly #redis: Redis;
  readonly #prefix: string;
  #filled = 0;

  private constructor(redis: Redis, prefix: string) {
    this.#redis = redis;
    this.#prefix = prefix;
  }

  static async open(stage: Stage): Promise<Control> {
    return new Control(await connect(stage.url, { name: "bench-control" }), stage.prefix);
  }

  /** Removes the contender's keys. */
  async clear(): Promise<void> {
    let cursor = "0";
    do {
      const command = ["SCAN", cursor, "MATCH", `*${this.#prefix}*`, "COUNT", "1000"];
      const [next, keys] = await this.#redis.send<readonly [string, readonly string[]]>(command);
      if (keys.length > 0) await this.#redis.send(["DEL", ...keys]);
      cursor = next;
    } while (cursor !== "0");
  }

  /** The store of our queue "bench". */
  queue(): QueueStore {
    return new QueueStore(this.#redis, this.#prefix, "bench");
  }

  /** Fills our queue "bench" up to `waiting` jobs. */
  async fill(waiting: number, json: string): Promise<void> {
    const { jobs, wait } = this.queue().keys;
    let length = await this.#redis.send<number>(["LLEN", wait]);
    while (length < waiting) {
      this.#filled += AT_ONCE;
      const args = [this.#filled, Math.min(AT_ONCE, waiting - length), `;0;0;\njob\n${json}`];
      length = Number(await this.#redis.run(fillScript, [jobs, wait], args));
    }
  }

  /** The total memory of Redis in bytes. */
  async memory(): Promise<number> {
    const info = await this.#redis.send<string>(["INFO", "memory"]);
    return Number(/^used_memory:(\d+)/m.exec(info)?.[1]);
  }

  close(): Promise<void> {
    return this.#redis.close();
  }
}
