/** All Redis traffic of one lock: a method per verb of turn.lua. */
import type { Redis, Reply } from "@ropeway/core";
import { checkName, checkSlots } from "../keyspace.ts";
import { type Asked, WAITER_LEASE_MS } from "../line.ts";
import { refused } from "../store/refused.ts";
import { storedInteger } from "../store/stored-integer.ts";
import { type WakeList, wakeListOf } from "../store/wake-list.ts";
import type { LockView } from "./inspector.ts";
import { type LockKeys, lockKeys } from "./keys.ts";
import { type Turn, turnScript } from "./scripts.ts";

/** Whether others may hold the lock at the same time. */
export type LockMode = "read" | "write";

/** A program that follows the documents releases by DEL and sends no wake-up, so its lock is polled. */
const FOREIGN_CHECK_MS = 50;
/** Expiry in Redis has a resolution of 1 ms. */
const PAST_EXPIRY_MS = 2;

/** How our tokens begin, and the value of the lock while readers hold it. */
const OURS = "rw1:";
const READERS = "rw1:readers";

/** How to acquire. */
export interface AcquireRequest {
  readonly token: string;
  readonly ttlMs: number | null;
  /** Take a place in the queue if it is not free. */
  readonly wait: boolean;
}

/** How to enter. */
export interface EnterRequest {
  readonly token: string;
  /** The id of the entry, which is the token of one more reader if a reader enters. */
  readonly entry: string;
  readonly ttlMs: number | null;
}

/** By which token and entry a further entry is held. */
export interface Entered {
  readonly token: string;
  readonly entry: string;
  readonly fence: number;
}

/** What acquire() found. */
export interface Acquired {
  /** Undefined: not acquired. */
  readonly fence: number | undefined;
  /** When to ask again; absent if the holder has no end. */
  readonly retryMs?: number;
}

/** One lock in Redis, as one kind of holder sees it. */
export class LockStore {
  readonly keys: LockKeys;
  readonly wakes: WakeList;
  readonly redis: Redis;
  readonly mode: LockMode;
  readonly #mode: "r" | "w";
  readonly #fair: "0" | "1";

  constructor(redis: Redis, name: string, how: { prefix: string; mode: LockMode; fair: boolean }) {
    checkName("the name of a lock", name);
    this.keys = lockKeys(how.prefix, name);
    checkSlots(redis, this.keys.all);
    this.wakes = wakeListOf(redis, how.prefix);
    this.redis = redis;
    this.mode = how.mode;
    this.#mode = how.mode === "read" ? "r" : "w";
    this.#fair = how.fair ? "1" : "0";
  }

  async acquire({ token, ttlMs, wait }: AcquireRequest): Promise<Acquired> {
    const list = wait ? this.wakes.key : "";
    const ttl = ttlMs ?? 0;
    const turn = await this.#turn(
      "acquire",
      token,
      this.#mode,
      ttl,
      list,
      WAITER_LEASE_MS,
      this.#fair,
    );
    const fence = turn.result === "" ? undefined : Number(turn.result);
    return { fence, ...retryOf(turn) };
  }

  /** Renews the places of waiting tokens; says which of them hold the lock by now. */
  async ask(tokens: readonly string[]): Promise<Asked> {
    const turn = await this.#turn("ask", WAITER_LEASE_MS, this.wakes.key, this.#mode, ...tokens);
    const granted = new Map<string, number>();
    const flat = turn.result as readonly string[];
    for (let i = 0; i + 1 < flat.length; i += 2)
      granted.set(flat[i] as string, Number(flat[i + 1]));
    return { granted, ...retryOf(turn) };
  }

  /** Enters a lock that `token` holds once more; undefined if the token does not hold it. */
  async enter({ token, entry, ttlMs }: EnterRequest): Promise<Entered | undefined> {
    // Only a reader enters beside readers. Others would not wait for it as a writer.
    const ttl = this.mode === "read" ? [ttlMs ?? 0] : [];
    const { result } = await this.#turn("enter", token, entry, ...ttl);
    if (result === 0) return undefined;
    if (typeof result !== "object") return { token, entry, fence: Number(result) };
    return { token: entry, entry: "0", fence: Number(result[1]) };
  }

  async extend(token: string, ttlMs: number | null): Promise<boolean> {
    const { result } = await this.#turn("extend", token, ttlMs ?? 0);
    return result === 1;
  }

  /** Releases one entry of the holder, or gives up a place in the queue. True if the token held it. */
  async leave(token: string, entry: string): Promise<boolean> {
    const { result } = await this.#turn("leave", token, entry, this.#fair, this.wakes.key);
    return result === 1;
  }

  /** Takes the lock from its holder; with a token, only from that one. */
  async break(token: string = ""): Promise<boolean> {
    const { result } = await this.#turn("break", token);
    return result === 1;
  }

  /** What an operator sees; the commands travel in one write. */
  async view(name: string): Promise<LockView | undefined> {
    const { lock, fence, queue, readers } = this.keys;
    const ask = <T extends Reply>(...command: string[]) =>
      this.redis.send<T>(command, { repeatable: true, key: lock });
    const [token, leftMs, newest, waiting, reading] = await Promise.all([
      ask<string | null>("GET", lock),
      ask<number>("PTTL", lock),
      ask<string | null>("GET", fence),
      ask<number>("ZCARD", queue),
      ask<number>("ZCARD", readers),
    ]);
    if (token === null) return undefined;
    const ours = token.startsWith(OURS);
    return {
      name,
      mode: token === READERS ? "read" : ours ? "write" : "foreign",
      owner: ours ? token.split(":").slice(2).join(":") : "",
      token,
      fence: storedInteger(newest),
      leftMs: leftMs < 0 ? null : leftMs,
      readers: reading,
      waiting,
    };
  }

  async #turn(verb: string, ...args: readonly (string | number)[]): Promise<Turn> {
    const sentAt = performance.now();
    const running = this.redis.run(turnScript, this.keys.all, [verb, ...args]);
    const turn = await refused({ what: "a lock", key: this.keys.lock }, running);
    this.wakes.deliver(turn.wakeUps, sentAt);
    return turn;
  }
}

function retryOf({ leftMs, foreign }: Turn): { retryMs?: number } {
  if (foreign) {
    const left = leftMs < 0 ? FOREIGN_CHECK_MS : leftMs + PAST_EXPIRY_MS;
    return { retryMs: Math.min(FOREIGN_CHECK_MS, left) };
  }
  return leftMs < 0 ? {} : { retryMs: leftMs + PAST_EXPIRY_MS };
}
