/** What a session needs besides its library: an empty Redis, and how much memory it uses. */
import { connect, type Redis } from "@ropeway/core";
import type { Stage } from "../../stage.ts";

/** A side connection of one contender. */
export class Control {
  readonly #redis: Redis;
  readonly #prefix: string;

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

  /** Bytes that Redis uses for everything. */
  async memory(): Promise<number> {
    const info = await this.#redis.send<string>(["INFO", "memory"]);
    return Number(/^used_memory:(\d+)/m.exec(info)?.[1]);
  }

  close(): Promise<void> {
    return this.#redis.close();
  }
}
