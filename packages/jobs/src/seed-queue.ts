/**
 * The wire of "Redis in Action", chapter 6, as it is written down everywhere and spoken by programs in
 * any language:
 *
 *   queue:<name>   list, RPUSH / BLPOP     [name, args]  or  [id, queue, name, args]
 *   delayed:       zset, score = due time in seconds; members are the four-element items
 *
 * The words are theirs; what the original loses, we do not: moving a due item is one script (theirs can
 * crash between ZREM and RPUSH), and SeedWorker leases what it takes (theirs is gone with BLPOP).
 */
import { randomUUID } from "node:crypto";
import { defineScript, InvalidOptionError, type Redis, type Script } from "@ropeway/core";
import { text } from "@ropeway/core/internal";
import { InvalidDataError } from "./errors.ts";
import { encodeData } from "./record.ts";

/** The zset of delayed items. */
export const SEED_DELAYED = "delayed:";

const moveScript: Script<number> = defineScript(new URL("../lua/seed-move.lua", import.meta.url));

/** An item of a seed list, read. */
export interface SeedItem {
  /** Only four-element items have one. */
  readonly id?: string;
  readonly name: string;
  readonly args: readonly unknown[];
}

/** The key of a seed list. */
export function seedListKey(queue: string): string {
  return `queue:${queue}`;
}

/** Reads an item of either form; undefined if it is neither. */
export function readSeedItem(json: string): SeedItem | undefined {
  let item: unknown;
  try {
    item = JSON.parse(json);
  } catch {
    return undefined; // set aside by the caller
  }
  if (!Array.isArray(item)) return undefined;
  if (item.length === 2 && typeof item[0] === "string" && Array.isArray(item[1])) {
    return { name: item[0], args: item[1] };
  }
  const [id, queue, name, args] = item as unknown[];
  if (item.length !== 4 || typeof queue !== "string" || typeof name !== "string") return undefined;
  return Array.isArray(args) ? { id: String(id), name, args } : undefined;
}

/** Gives work to consumers written for the seed's wire, and moves due items for everybody. */
export class SeedQueue {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** RPUSHes `[name, args]`, for consumers of the simple form. */
  async push(queue: string, name: string, args: readonly unknown[] = []): Promise<void> {
    await this.#push(queue, encodeItem([name, args], queue, name));
  }

  /** The seed's execute_later: a four-element item, at once or after a delay. Returns its id. */
  async later(queue: string, name: string, options: SeedLater = {}): Promise<string> {
    const { args = [], delayMs = 0 } = options;
    const id = randomUUID();
    const item = encodeItem([id, queue, name, args], queue, name);
    if (delayMs <= 0) {
      await this.#push(queue, item);
      return id;
    }
    const due = ((await this.#now()) + delayMs) / 1_000;
    await this.#redis.send(["ZADD", SEED_DELAYED, String(due), item], { key: SEED_DELAYED });
    return id;
  }

  /** How many items wait in a list. */
  length(queue: string): Promise<number> {
    const key = seedListKey(queue);
    return this.#redis.send<number>(["LLEN", key], { key, repeatable: true });
  }

  /**
   * Moves what is due to its list. Items nobody can read go to `delayed:bad`. Returns how many were moved
   * and the ms until the next is due, or -1.
   */
  async moveDue(limit: number = 100): Promise<{ moved: number; nextMs: number }> {
    const now = await this.#now();
    const items = await this.#redis.send<readonly string[]>(
      ["ZRANGE", SEED_DELAYED, "0", String(limit - 1), "WITHSCORES"],
      { key: SEED_DELAYED, repeatable: true },
    );
    let moved = 0;
    for (let i = 0; i < items.length; i += 2) {
      const [item, score] = [items[i] as string, Number(items[i + 1])];
      if (score * 1_000 > now) return { moved, nextMs: Math.ceil(score * 1_000 - now) };
      const queue = queueOf(item);
      const target = queue === undefined ? `${SEED_DELAYED}bad` : seedListKey(queue);
      moved += await this.#redis.run(moveScript, [SEED_DELAYED, target], [item]);
    }
    return { moved, nextMs: items.length === 0 ? -1 : 0 };
  }

  async #push(queue: string, item: string): Promise<void> {
    const key = seedListKey(queue);
    await this.#redis.send(["RPUSH", key, item], { key });
  }

  async #now(): Promise<number> {
    const [seconds, micros] = await this.#redis.send<readonly string[]>(["TIME"], {
      key: SEED_DELAYED,
      repeatable: true,
    });
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  }
}

/** How SeedQueue.later() adds. */
export interface SeedLater {
  readonly args?: readonly unknown[];
  readonly delayMs?: number;
}

function encodeItem(item: readonly unknown[], queue: unknown, name: unknown): string {
  if (!text.accepts(queue)) throw new InvalidOptionError("queue", queue, text.allowed);
  if (!text.accepts(name)) throw new InvalidOptionError("name", name, text.allowed);
  if (!Array.isArray(item.at(-1))) throw new InvalidDataError(name, "args must be an array");
  return encodeData(item, name);
}

function queueOf(item: string): string | undefined {
  if (readSeedItem(item)?.id === undefined) return undefined;
  return (JSON.parse(item) as [string, string])[1];
}
