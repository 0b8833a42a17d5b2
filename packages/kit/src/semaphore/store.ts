/** All Redis traffic of one semaphore: a method per verb of turn.lua. */
import type { Redis, Reply } from "@ropeway/core";
import { checkSlots } from "../keyspace.ts";
import { type Asked, WAITER_LEASE_MS } from "../line.ts";
import { refused } from "../store/refused.ts";
import { storedInteger } from "../store/stored-integer.ts";
import { type WakeList, wakeListOf } from "../store/wake-list.ts";
import { checkSemaphoreName, type SemaphoreKeys, semaphoreKeys } from "./keys.ts";
import { limitRule } from "./options.ts";
import { type Turn, turnScript } from "./scripts.ts";

/** What the handle knows of its semaphore. */
export interface SemaphoreShape {
  readonly prefix: string;
  readonly limit: number;
  /** 0: not known. Permits of documented programs that nobody has seen before then get no end. */
  readonly ttlMs: number;
}

/** What acquire() found. */
export interface Acquired {
  readonly acquired: boolean;
  readonly retryMs?: number;
}

/** A semaphore as an operator sees it. */
export interface SemaphoreUse {
  readonly name: string;
  /** What resize() set; undefined: every process uses its own `limit` option. */
  readonly limit: number | undefined;
  readonly held: number;
  readonly waiting: number;
}

/** A semaphore as its handle sees it. */
export interface SemaphoreView extends SemaphoreUse {
  readonly limit: number;
}

/** One semaphore in Redis. */
export class SemaphoreStore {
  readonly redis: Redis;
  readonly keys: SemaphoreKeys;
  readonly wakes: WakeList;
  readonly #name: string;
  readonly #shape: SemaphoreShape;

  constructor(redis: Redis, name: string, shape: SemaphoreShape) {
    checkSemaphoreName(name);
    this.redis = redis;
    this.#name = name;
    this.#shape = shape;
    this.keys = semaphoreKeys(shape.prefix, name);
    checkSlots(redis, this.keys.all);
    this.wakes = wakeListOf(redis, shape.prefix);
  }

  async acquire(token: string, wait: boolean): Promise<Acquired> {
    const turn = await this.#turn("acquire", token, wait ? this.wakes.key : "");
    return { acquired: turn.result !== "", ...retryOf(turn) };
  }

  /** Renews the places of waiting tokens; says which of them hold a permit by now. */
  async ask(tokens: readonly string[]): Promise<Asked> {
    const turn = await this.#turn("ask", this.wakes.key, ...tokens);
    const granted = new Map<string, number>();
    const flat = turn.result as readonly string[];
    for (let i = 0; i + 1 < flat.length; i += 2)
      granted.set(flat[i] as string, Number(flat[i + 1]));
    return { granted, ...retryOf(turn) };
  }

  async extend(token: string): Promise<boolean> {
    return (await this.#turn("extend", token)).result === 1;
  }

  /** Gives a permit or a place in the queue back. True if the token held a permit. */
  async leave(token: string): Promise<boolean> {
    return (await this.#turn("leave", token)).result === 1;
  }

  /** Sets the limit of all processes, or leaves it to them; permits that became free are granted. */
  async resize(limit: number | undefined): Promise<void> {
    const { limit: key } = this.keys;
    const command = limit === undefined ? ["DEL", key] : ["SET", key, String(limit)];
    const sending = this.redis.send(command, { repeatable: true, key });
    await refused({ what: "a limit", key }, sending);
    await this.#turn("ask", this.wakes.key);
  }

  /** What is in Redis at this moment; changes nothing. */
  async use(): Promise<SemaphoreUse> {
    const { times, queue, limit: limitKey } = this.keys;
    const ask = <T extends Reply>(...command: string[]) =>
      this.redis.send<T>(command, { repeatable: true, key: times });
    const [held, waiting, limit] = await Promise.all([
      ask<number>("ZCARD", times),
      ask<number>("ZCARD", queue),
      ask<string | null>("GET", limitKey),
    ]);
    const set = storedInteger(limit);
    return { name: this.#name, limit: limitRule.accepts(set) ? set : undefined, held, waiting };
  }

  /** The same, without permits that are over. */
  async view(): Promise<SemaphoreView> {
    await this.#turn("ask", this.wakes.key);
    const use = await this.use();
    return { ...use, limit: use.limit ?? this.#shape.limit };
  }

  async #turn(verb: string, ...args: readonly string[]): Promise<Turn> {
    const { limit, ttlMs } = this.#shape;
    const all = [verb, limit, ttlMs, WAITER_LEASE_MS, ...args];
    const running = this.redis.run(turnScript, this.keys.all, all);
    const turn = await refused({ what: "a permit", key: this.keys.times }, running);
    this.wakes.deliver(turn.wakeUps);
    return turn;
  }
}

function retryOf({ retryMs }: Turn): { retryMs?: number } {
  return retryMs < 0 ? {} : { retryMs };
}
