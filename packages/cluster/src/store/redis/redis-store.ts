/**
 * The store on Redis 6.2 or newer. Every change is one script, so it is atomic; the log of changes is a
 * stream whose ids are the revisions, so watches survive restarts and notice what was trimmed. Only this
 * folder sends the store's commands.
 */
import {
  ConnectionLostError,
  isReply,
  type Logger,
  OutOfMemoryError,
  type Redis,
  WrongKeyTypeError,
} from "@ropeway/core";
import { newToken, requireRedis } from "@ropeway/core/internal";
import { CompactedError, StoreRefusedError, StoreUnavailableError } from "../../errors.ts";
import { checkKey, checkPrefixPath, checkTransaction, endOfPrefix, limitOf } from "../limits.ts";
import { onlyReads } from "../reads.ts";
import type {
  Entry,
  Grant,
  RangeOptions,
  RangeResult,
  Store,
  StoreStatus,
  Transaction,
  TransactionResult,
  WatchEvent,
  WatchOptions,
} from "../store.ts";
import { entryOf, foundEntry } from "./entry.ts";
import { Feed } from "./feed.ts";
import { DEFAULT_PREFIX, RedisStoreKeys } from "./keys.ts";
import { LeaseReaper } from "./reaper.ts";
import {
  storeEvents,
  storeGrant,
  storeKeepAlive,
  storeList,
  storeRead,
  storeReadTxn,
  storeTxn,
} from "./scripts.ts";
import { transactionArguments } from "./transaction-arguments.ts";

/** How the store behaves. */
export interface RedisStoreOptions {
  /** The beginning of every key. @default "ropeway:store" */
  readonly prefix?: string;
  /** About how many changes are kept for watches; fewer if values are longer than 10 KB. @default 20000 */
  readonly history?: number;
  /** @default the connection's */
  readonly logger?: Logger;
}

/** More entries than one revision can have, and few enough for a script. */
const EVENTS_PER_READ = 250;
/** About how much a script reads at once: a server that reads for one client serves no other. */
const BYTES_PER_READ = 256 * 1_024;

/**
 * Opens a store on a connected Redis, which stays open when the store is closed. It holds no timer and no
 * connection of its own until it is asked for a lease or a watch.
 */
export function openRedisStore(redis: Redis, options: RedisStoreOptions = {}): Store {
  return new RedisStore(redis, options);
}

class RedisStore implements Store {
  readonly kind = "redis";
  readonly #redis: Redis;
  readonly #keys: RedisStoreKeys;
  readonly #history: number;
  readonly #reaper: LeaseReaper;
  readonly #feed: Feed;
  readonly #closing = new AbortController();

  constructor(redis: Redis, options: RedisStoreOptions) {
    requireRedis(redis);
    const { prefix = DEFAULT_PREFIX, history = 20_000, logger = redis.logger } = options;
    this.#redis = redis;
    this.#keys = new RedisStoreKeys(prefix, redis.topology);
    this.#history = history;
    const plan = { redis, keys: this.#keys, history, logger };
    this.#reaper = new LeaseReaper(plan);
    this.#feed = new Feed(plan);
  }

  get where(): string {
    return this.#redis.where;
  }

  async get(key: string): Promise<Entry | undefined> {
    checkKey(key);
    return (await this.#read([key]))[0];
  }

  async put(key: string, value: string, lease?: string): Promise<number> {
    return (await this.txn({ do: [{ op: "put", key, value, lease }] })).revision;
  }

  async delete(key: string): Promise<boolean> {
    const compare = { key, target: "create", is: ">", than: 0 } as const;
    return (await this.txn({ if: [compare], do: [{ op: "delete", key }] })).succeeded;
  }

  async range(prefix: string, options: RangeOptions = {}): Promise<RangeResult> {
    checkPrefixPath(prefix);
    const limit = limitOf(options);
    const { state, index } = this.#keys;
    const end = `(${endOfPrefix(prefix)}`;
    let listedAt: number | undefined;
    for (let { after } = options; ; ) {
      const start = after === undefined || after < prefix ? `[${prefix}` : `(${after}`;
      const [revision, ...paths] = await this.#guard(() =>
        this.#redis.run(storeList, [state, index], [start, end, limit + 1]),
      );
      listedAt ??= Number(revision);
      const page = paths.slice(0, limit);
      const entries = (await this.#read(page)).filter((entry) => entry !== undefined);
      const more = paths.length > limit;
      // A page whose entries were all removed meanwhile is skipped: the next one may have entries.
      if (entries.length > 0 || !more) return { entries, revision: listedAt, more };
      after = page.at(-1);
    }
  }

  async txn(transaction: Transaction): Promise<TransactionResult> {
    checkTransaction(transaction);
    const { keys, args } = transactionArguments(this.#keys, transaction, {
      history: this.#history,
      newId: newToken(),
    });
    const script = onlyReads(transaction) ? storeReadTxn : storeTxn;
    const [outcome, second, ...found] = await this.#guard(() =>
      this.#redis.run(script, keys, args),
    );
    if (outcome === -1) {
      throw new StoreRefusedError(this.where, `the lease ${String(second)} has ended`);
    }
    const succeeded = outcome === 1;
    const chosen = (succeeded ? transaction.do : transaction.else) ?? [];
    const gets = chosen.filter(({ op }) => op === "get");
    return {
      succeeded,
      revision: Number(second),
      found: gets.map(({ key }, index) => foundEntry(key, found[index] as string[])),
    };
  }

  async grant(ttlMs: number): Promise<Grant> {
    const ttl = Math.max(1, Math.ceil(ttlMs));
    const id = `${ttl}-${newToken()}`;
    await this.#guard(() => this.#redis.run(storeGrant, [this.#keys.leases], [id, ttl]));
    this.#reaper.start(); // a client with a lease also ends leases
    return { id, ttlMs: ttl };
  }

  keepAlive(lease: string): Promise<number> {
    const ttl = Number(lease.split("-", 1)[0]);
    return this.#guard(() => this.#redis.run(storeKeepAlive, [this.#keys.leases], [lease, ttl]));
  }

  async revoke(lease: string): Promise<void> {
    await this.#guard(() => this.#reaper.end(lease, "now"));
  }

  async *watch(options: WatchOptions): AsyncGenerator<readonly WatchEvent[]> {
    const { prefix, from } = options;
    checkKey(prefix);
    const signal = AbortSignal.any([options.signal, this.#closing.signal]);
    this.#reaper.start(); // a client with a watch also ends leases
    let next = from;
    let seen = 0;
    let history: string | undefined;
    while (!signal.aborted) {
      const read = await this.#events(prefix, { from: next, seen }).catch((error: unknown) => {
        if (error instanceof StoreUnavailableError) return undefined;
        throw error;
      });
      if (read === undefined) {
        await this.#feed.wait(next - 1, signal); // the connection comes back by itself
        continue;
      }
      const { id, revision, gone, events } = read;
      const restarted = history !== undefined && history !== "" && id !== history;
      if (next <= gone || restarted || (revision > 0 && next > revision + 1)) {
        throw new CompactedError(next, gone + 1);
      }
      history = id;
      seen = revision === 0 ? 0 : read.next - 1;
      if (events.length > 0) yield events;
      const more = read.next <= revision;
      next = read.next;
      if (!more && !signal.aborted) await this.#feed.wait(next - 1, signal);
    }
  }

  async status(): Promise<StoreStatus> {
    const { state } = this.#keys;
    const revision = await this.#guard(() =>
      this.#redis.send(["HGET", state, "revision"], { key: state, repeatable: true }),
    );
    return { version: this.#redis.server.version, revision: Number(revision ?? 0) };
  }

  /** Forgets history before a revision; it is trimmed by itself, see `history`. */
  async compact(revision: number): Promise<void> {
    const { log } = this.#keys;
    await this.#redis.send(["XTRIM", log, "MINID", String(revision + 1)], { key: log });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([this.#reaper.close(), this.#feed.close()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #read(paths: readonly string[]): Promise<(Entry | undefined)[]> {
    if (paths.length === 0) return [];
    const entries: (Entry | undefined)[] = [];
    while (entries.length < paths.length) {
      const rest = paths.slice(entries.length);
      const keys = [this.#keys.meta, ...rest.map((path) => this.#keys.value(path))];
      const found = await this.#guard(() =>
        this.#redis.run(storeRead, keys, [BYTES_PER_READ, ...rest]),
      );
      entries.push(...found.map((one, index) => foundEntry(rest[index] ?? "", one)));
    }
    return entries;
  }

  async #events(prefix: string, { from, seen }: { from: number; seen: number }) {
    const { state, log } = this.#keys;
    const args = [String(from), prefix, EVENTS_PER_READ, String(seen), BYTES_PER_READ];
    const [id = "", revision, gone, next, ...rest] = await this.#guard(() =>
      this.#redis.run(storeEvents, [state, log], args),
    );
    const events: WatchEvent[] = [];
    for (let at = 0; at < rest.length; at += 4) {
      const [type, key = "", value = "", meta = ""] = rest.slice(at, at + 4);
      events.push({ type: type === "d" ? "delete" : "put", entry: entryOf(key, value, meta) });
    }
    return { id, revision: Number(revision), gone: Number(gone), next: Number(next), events };
  }

  async #guard<T>(send: () => Promise<T>): Promise<T> {
    try {
      return await send();
    } catch (error) {
      if (isReply(error, "OOM")) throw new OutOfMemoryError("the cluster's store", error);
      if (isReply(error, "WRONGTYPE")) throw new WrongKeyTypeError(this.#keys.state, error);
      if (REFUSALS.some((code) => isReply(error, code))) {
        throw new StoreUnavailableError(this.where, false, error); // scripts are refused before their first write
      }
      if (UNAVAILABLE.has((error as { code?: string }).code ?? "")) {
        throw new StoreUnavailableError(this.where, error instanceof ConnectionLostError, error);
      }
      throw error;
    }
  }
}

/** Replies of a server that takes no writes for now. */
const REFUSALS = ["NOREPLICAS", "READONLY", "MISCONF", "MASTERDOWN", "LOADING", "CLUSTERDOWN"];
const UNAVAILABLE = new Set(["CONNECTION_LOST", "NOT_CONNECTED", "CONNECTION_CLOSED", "TIMEOUT"]);
