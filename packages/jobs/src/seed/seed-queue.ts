/**
 * The producer's side of the lists of "Redis in Action", chapter 6, which programs in many languages use
 * (store/seed-store.ts draws them). One script moves a due item: the book's program can crash between
 * ZREM and RPUSH and lose the item.
 */
import { randomUUID } from "node:crypto";
import { InvalidArgumentError, InvalidOptionError, type Redis } from "@ropeway/core";
import { between, integer, requireRedis, text } from "@ropeway/core/internal";
import { InvalidDataError } from "../errors.ts";
import { LONGEST_MS } from "../options.ts";
import { checkNames } from "../queue/job-plan.ts";
import { encodeData } from "../record.ts";
import { SeedStore } from "../store/seed-store.ts";

/** A decoded item of a list. */
export interface SeedItem {
  /** Only four-element items have one. */
  readonly id?: string;
  readonly name: string;
  readonly args: readonly unknown[];
}

/** Decodes an item of either form; undefined if it is neither. */
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

/** The options of SeedQueue.later(). */
export interface SeedLater {
  readonly args?: readonly unknown[];
  readonly delayMs?: number;
}

const LATER = new Set(["args", "delayMs"]);

/** Adds items for consumers of the documented Python wire, and moves due items for all of them. */
export class SeedQueue {
  readonly #store: SeedStore;

  constructor(redis: Redis) {
    requireRedis(redis);
    this.#store = new SeedStore(redis);
  }

  /** RPUSHes `[name, args]`, for consumers of the simple form. */
  async push(queue: string, name: string, args: readonly unknown[] = []): Promise<void> {
    await this.#store.push(queue, encodeItem([name, args], queue, name));
  }

  /** The book's execute_later: a four-element item, at once or after a delay. Returns its id. */
  async later(queue: string, name: string, options: SeedLater = {}): Promise<string> {
    checkNames("options", options, LATER);
    const { args = [], delayMs = 0 } = options;
    const rule = between(0, LONGEST_MS);
    if (!rule.accepts(delayMs)) throw new InvalidOptionError("delayMs", delayMs, rule.allowed);
    const id = randomUUID();
    const item = encodeItem([id, queue, name, args], queue, name);
    if (delayMs === 0) await this.#store.push(queue, item);
    else await this.#store.pushDelayed(item, ((await this.#store.now()) + delayMs) / 1_000);
    return id;
  }

  /** How many items wait in a list. */
  async length(queue: string): Promise<number> {
    if (!text.accepts(queue)) throw new InvalidArgumentError("queue", queue, text.allowed);
    return this.#store.length(queue);
  }

  /**
   * Moves due items to their lists, and items that cannot be read to `delayed:bad`. Returns how many were
   * moved and the ms until the next is due, or -1.
   */
  async moveDue(limit: number = 100): Promise<{ moved: number; nextMs: number }> {
    const rule = integer(1, 10_000);
    if (!rule.accepts(limit)) throw new InvalidArgumentError("limit", limit, rule.allowed);
    const now = await this.#store.now();
    const items = await this.#store.delayed(limit);
    let moved = 0;
    for (const [item, due] of items) {
      const nextMs = Math.ceil(due * 1_000 - now);
      if (nextMs > 0) return { moved, nextMs: Number.isFinite(nextMs) ? nextMs : -1 };
      if (await this.#store.moveDelayed(item, queueOf(item))) moved += 1;
    }
    return { moved, nextMs: items.length === 0 ? -1 : 0 };
  }
}

function encodeItem(item: readonly unknown[], queue: unknown, name: unknown): string {
  if (!text.accepts(queue)) throw new InvalidArgumentError("queue", queue, text.allowed);
  if (!text.accepts(name)) throw new InvalidArgumentError("name", name, text.allowed);
  if (!Array.isArray(item.at(-1))) throw new InvalidDataError(name, "args must be an array");
  return encodeData(item, name);
}

function queueOf(item: string): string | undefined {
  if (readSeedItem(item)?.id === undefined) return undefined;
  return (JSON.parse(item) as [string, string])[1];
}
