/**
 * The commands of the registry: the services, their workers, and the lengths of the queues.
 *
 * Ropeway workers are found through an index that their heartbeat maintains. Workers that use only the
 * documented keys are found by a SCAN of the namespace, which is bounded, used only for discovery, and
 * limited in its frequency.
 */
import type { Redis } from "@ropeway/core";
import { type CallKeys, dead, inFlight, leases, NAMESPACES } from "../keys.ts";
import { explain } from "./refusal.ts";
import { beat, leave } from "./scripts.ts";

/** One key that shows that a worker is alive. */
export interface SignOfLife {
  readonly index: string;
  readonly key: string;
  /** Its value, created for each beat. */
  value(): string;
}

/** A worker's heartbeat. */
export interface Beat {
  readonly node: string;
  readonly worker: string;
  readonly ttlMs: number;
  readonly signs: readonly SignOfLife[];
  /** The lease sets of the at-least-once lists. */
  readonly leases: readonly string[];
}

/** The lengths of a service's lists. */
export interface QueueLengths {
  readonly waiting: number;
  /** Calls that at-least-once workers have taken and not finished. */
  readonly inFlight: number;
  /** Messages that were moved to the dead list. */
  readonly dead: number;
}

/** A larger database is not scanned. */
const SCAN_AT_MOST = 200_000;
const SCAN_STEP = "1000";
const WORKERS_AT_MOST = 1_000;

/** Every command about the registry. */
export class RegistryStore {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** The namespaces of this Redis. */
  namespaces(): Promise<string[]> {
    return this.#ask(NAMESPACES, ["SMEMBERS", NAMESPACES]);
  }

  async addNamespace(ns: string): Promise<void> {
    await this.#ask(NAMESPACES, ["SADD", NAMESPACES, ns]);
  }

  services(key: string): Promise<string[]> {
    return this.#ask(key, ["SMEMBERS", key]);
  }

  async addService(key: string, service: string): Promise<void> {
    await this.#ask(key, ["SADD", key, service]);
  }

  /** Method and JSON, alternating. */
  descriptions(key: string): Promise<string[]> {
    return this.#ask(key, ["HGETALL", key]);
  }

  async describe(key: string, descriptions: readonly string[]): Promise<void> {
    if (descriptions.length > 0) await this.#ask(key, ["HSET", key, ...descriptions]);
  }

  async forget(key: string, methods: readonly string[]): Promise<void> {
    if (methods.length > 0) await this.#ask(key, ["HDEL", key, ...methods]);
  }

  /** The nodes in an index. */
  nodes(index: string): Promise<string[]> {
    return this.#ask(index, ["ZRANGE", index, "0", String(WORKERS_AT_MOST - 1)]);
  }

  /** The values of some keys. */
  async values(keys: readonly string[]): Promise<readonly (string | null)[]> {
    const [first] = keys;
    return first === undefined ? [] : this.#ask(first, ["MGET", ...keys]);
  }

  /** The keys that match a pattern; none if the database is too large to be scanned. */
  async scan(pattern: string): Promise<readonly string[]> {
    if (Number(await this.#ask(pattern, ["DBSIZE"])) > SCAN_AT_MOST) return [];
    const found = new Set<string>();
    let cursor = "0";
    do {
      const command = ["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_STEP];
      const [next, keys] = await this.#ask<[string, string[]]>(pattern, command);
      for (const key of keys) found.add(key);
      cursor = String(next);
    } while (cursor !== "0" && found.size < WORKERS_AT_MOST);
    return [...found];
  }

  /** The lengths of a request list and of the lists that belong to it. */
  async lengths(list: string): Promise<QueueLengths> {
    const set = leases(list);
    const [waiting, set_aside, workers] = await Promise.all([
      this.length(list),
      this.length(dead(list)),
      this.#ask<string[]>(set, ["ZRANGE", set, "0", String(WORKERS_AT_MOST - 1)]),
    ]);
    const held = await Promise.all(workers.map((worker) => this.length(inFlight(list, worker))));
    return { waiting, dead: set_aside, inFlight: held.reduce((sum, length) => sum + length, 0) };
  }

  async length(list: string): Promise<number> {
    return Number(await this.#ask(list, ["LLEN", list]));
  }

  /** How many connections Ropeway callers and workers hold; undefined if CLIENT LIST is not allowed. */
  async connections(): Promise<{ readonly callers: number; readonly workers: number } | undefined> {
    try {
      const list = await this.#redis.send<string>(["CLIENT", "LIST", "TYPE", "NORMAL"]);
      const count = (purpose: string) =>
        list.split(` name=`).filter((c) => c.split(" ", 1)[0]?.endsWith(purpose)).length;
      return { callers: count("rpc-replies"), workers: count("rpc-calls") };
    } catch {
      return undefined; // an ACL user without that command
    }
  }

  /** Renews a worker's keys. Returns how many signs of life were gone and how many leases were lost. */
  async beat(worker: Beat): Promise<{ readonly gone: number; readonly lost: number }> {
    const { node, signs, ttlMs } = worker;
    if (this.#redis.topology === "cluster") return this.#beatEach(worker);
    const described = signs.flatMap((sign) => [node, sign.value()]);
    const args = [ttlMs, worker.worker, signs.length, ...described];
    const [gone = 0, lost = 0] = await this.#redis.run(beat, beatKeys(worker), args);
    return { gone, lost };
  }

  /** Key by key: while their slot moves to another node, Cluster refuses commands of several keys. */
  async #beatEach(worker: Beat): Promise<{ readonly gone: number; readonly lost: number }> {
    const { node, signs, ttlMs } = worker;
    const home = signs[0]?.key ?? ""; // uses the clock of the node that has the keys
    const [seconds = 0, micros = 0] = (await this.#ask<string[]>(home, ["TIME"])).map(Number);
    const now = seconds * 1_000 + Math.floor(micros / 1_000);
    const until = String(now + ttlMs);
    const before = await Promise.all(
      signs.map(async ({ index, key, value }) => {
        const set = ["SET", key, value(), "PX", String(ttlMs), "GET"];
        const [old] = await Promise.all([
          this.#ask<string | null>(key, set),
          this.#ask(index, ["ZADD", index, until, node]),
          this.#ask(index, ["ZREMRANGEBYSCORE", index, "-inf", String(now)]),
          this.#ask(index, ["PEXPIRE", index, String(ttlMs * 2)]),
        ]);
        return old;
      }),
    );
    const scores = await Promise.all(
      worker.leases.map(async (set) => {
        const score = await this.#ask<string | null>(set, ["ZSCORE", set, worker.worker]);
        await this.#ask(set, ["ZADD", set, until, worker.worker]);
        return Number(score ?? 0);
      }),
    );
    return {
      gone: before.filter((old) => old === null).length,
      lost: scores.filter((score) => score <= now).length,
    };
  }

  /** Removes a worker's keys. */
  async leave(worker: Beat): Promise<void> {
    const { node, signs } = worker;
    const args = [worker.worker, signs.length, ...signs.map(() => node)];
    await this.#redis.run(leave, beatKeys(worker), args);
  }

  async #ask<T>(key: string, command: readonly string[]): Promise<T> {
    try {
      return (await this.#redis.send(command, { key, repeatable: true })) as T;
    } catch (error) {
      throw explain(error, key);
    }
  }
}

function beatKeys({ signs, leases: sets }: Beat): string[] {
  return [...signs.flatMap((sign) => [sign.index, sign.key]), ...sets];
}

/** The lists through which a wire's services are called. */
export function requestLists(
  keys: CallKeys,
  service: string,
  methods: readonly string[] | undefined,
): readonly string[] {
  return methods === undefined
    ? [keys.request(service, "")]
    : methods.map((method) => keys.request(service, method));
}
