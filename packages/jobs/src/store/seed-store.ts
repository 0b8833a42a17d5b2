/**
 * The lists of "Redis in Action", chapter 6, in Redis, and our keys beside them:
 *
 *   queue:<name>            list, RPUSH / BLPOP     [name, args]  or  [id, queue, name, args]
 *   delayed:                zset, score = due time in seconds; members are the four-element items
 *   {queue:<name>}:taken    hash token -> item that a SeedWorker has
 *   {queue:<name>}:leases   zset token -> ms when the lease expires
 *   {queue:<name>}:bad      list of items that could not be read or whose callback failed
 */
import type { Redis } from "@ropeway/core";
import { type BlockingConnection, hashTag } from "@ropeway/core/internal";
import { seedEndScript, seedMoveScript, seedRenewScript, seedTakeScript } from "../scripts.ts";

const DELAYED = "delayed:";

/** The key of a list. */
export function seedListKey(queue: string): string {
  return `queue:${queue}`;
}

/** An item that was taken. */
export interface TakenItem {
  readonly token: string;
  readonly item: string;
}

/** The arguments of a take. */
export interface TakeCall {
  readonly list: string;
  readonly want: number;
  readonly leaseMs: number;
  /** The prefix of the tokens; unique to this call. */
  readonly tokens: string;
}

/** The commands of the documented Python wire. */
export class SeedStore {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  async push(queue: string, item: string): Promise<void> {
    const key = seedListKey(queue);
    await this.#redis.send(["RPUSH", key, item], { key });
  }

  /** `due` is in seconds, as on the wire. */
  async pushDelayed(item: string, due: number): Promise<void> {
    await this.#redis.send(["ZADD", DELAYED, String(due), item], { key: DELAYED });
  }

  length(queue: string): Promise<number> {
    const key = seedListKey(queue);
    return this.#redis.send<number>(["LLEN", key], { key, repeatable: true });
  }

  /** The next delayed items with their due times in seconds. */
  async delayed(limit: number): Promise<(readonly [string, number])[]> {
    const command = ["ZRANGE", DELAYED, "0", String(limit - 1), "WITHSCORES"];
    const options = { key: DELAYED, repeatable: true };
    const flat = await this.#redis.send<readonly string[]>(command, options);
    return flat.flatMap((item, i) => (i % 2 === 0 ? [[item, scoreOf(flat[i + 1])] as const] : []));
  }

  /** Moves a due item to its list, or to `delayed:bad`; false if another process did. */
  async moveDelayed(item: string, queue: string | undefined): Promise<boolean> {
    const bad = `${DELAYED}bad`;
    const target = queue === undefined ? bad : seedListKey(queue);
    return (await this.#redis.run(seedMoveScript, [DELAYED, target, bad], [item])) === 1;
  }

  async take(call: TakeCall): Promise<TakenItem[]> {
    const { taken, leases } = besideKeys(call.list);
    const args = [call.want, call.leaseMs, call.tokens];
    const flat = await this.#redis.run(seedTakeScript, [call.list, taken, leases], args);
    return flat.flatMap((token, i) => (i % 2 === 0 ? [{ token, item: flat[i + 1] ?? "" }] : []));
  }

  async renew(list: string, token: string, leaseMs: number): Promise<void> {
    const { leases } = besideKeys(list);
    await this.#redis.run(seedRenewScript, [leases], [token, leaseMs]);
  }

  /** Removes an item that is finished, or sets it aside. */
  async end(list: string, token: string, aside: boolean): Promise<void> {
    const { taken, leases, bad } = besideKeys(list);
    await this.#redis.run(seedEndScript, [taken, leases, bad], [token, aside ? "1" : ""]);
  }

  connect(list: string): Promise<BlockingConnection> {
    return this.#redis.blocking("jobs-seed", list);
  }

  /** Blocks until the list has an item. Takes nothing: it moves the first item to its own place. */
  async watch(connection: BlockingConnection, list: string, blockMs: number): Promise<boolean> {
    const command = ["BLMOVE", list, list, "LEFT", "LEFT", String(blockMs / 1_000)];
    return (await connection.send(command, { blockMs })) !== null;
  }

  /** The server's time in ms. */
  async now(): Promise<number> {
    const options = { key: DELAYED, repeatable: true };
    const [seconds, micros] = await this.#redis.send<readonly string[]>(["TIME"], options);
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  }
}

function scoreOf(text: string = ""): number {
  return Number(text.replace("inf", "Infinity"));
}

/** The keys beside a list, on the same slot. */
function besideKeys(list: string): { taken: string; leases: string; bad: string } {
  const tag = hashTag(list) ?? list;
  const name = hashTag(list) === undefined ? "" : `:${list}`;
  return {
    taken: `{${tag}}${name}:taken`,
    leases: `{${tag}}${name}:leases`,
    bad: `{${tag}}${name}:bad`,
  };
}
