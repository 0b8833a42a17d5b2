/** The commands for single calls and their lists. The hot paths are PushBuffer and ListPopper. */
import type { Redis } from "@ropeway/core";
import type { Dialect } from "../wire/dialect.ts";
import { explain } from "./refusal.ts";
import { collect, peek, withdraw, withdrawById } from "./scripts.ts";

/** The content of the keys of a submitted call. */
export interface Peeked {
  readonly response: string | undefined;
  readonly reports: readonly string[];
}

/** The keys of a submitted call, and the number of reports that the reader has seen. */
export interface PeekKeys {
  readonly response: string;
  readonly progress: string;
  readonly seen: number;
}

const PER_COLLECT = 512;
/** The number of elements at each end of a list that are compared with a withdrawn call. */
const COMPARED = 100_000;
/** The maximum number of bytes of a list that are copied to search for a call. */
const SEARCHED_BYTES = 2_000_000;
const DEAD_LETTERS = "999";

/** Every command about single calls. */
export class CallStore {
  readonly #redis: Redis;
  readonly #dialect: Dialect;

  constructor(redis: Redis, dialect: Dialect) {
    this.#redis = redis;
    this.#dialect = dialect;
  }

  /** Pops all elements of these keys, without waiting. */
  async collect(keys: readonly string[]): Promise<readonly [string, readonly string[]][]> {
    if (this.#redis.topology === "cluster") return this.#collectEach(keys);
    return this.#redis.run(collect, keys, [this.#popVerb, PER_COLLECT]);
  }

  /** Key by key: while their slot moves to another node, Cluster refuses commands of several keys. */
  async #collectEach(keys: readonly string[]): Promise<readonly [string, readonly string[]][]> {
    const popped = await Promise.allSettled(keys.map((key) => this.popNow(key, PER_COLLECT)));
    // An error of one key, such as a wrong type, must not lose elements popped from the others.
    return keys.flatMap((key, i) => {
      const outcome = popped[i];
      return outcome?.status === "fulfilled" && outcome.value.length > 0
        ? [[key, outcome.value] as [string, readonly string[]]]
        : [];
    });
  }

  /** Reads the response and new reports of submitted calls, at most 100 of them. */
  async peek(calls: readonly PeekKeys[]): Promise<readonly Peeked[]> {
    const keys = calls.flatMap(({ response, progress }) => [response, progress]);
    const found = await this.#redis.run(peek, keys, [
      this.#dialect.popSide,
      ...calls.map(({ seen }) => seen),
    ]);
    return found.map(([response, reports]) => ({ response: response ?? undefined, reports }));
  }

  /** Removes a call from its list. Returns whether it was still there. */
  async withdraw(list: string, text: string): Promise<boolean> {
    return (await this.#redis.run(withdraw, [list], [text, COMPARED])) > 0;
  }

  /** Removes the call with this id from the list, if it is among the oldest `searched` ones. */
  async withdrawById(list: string, id: string, searched: number): Promise<boolean> {
    const mark = `"id":${JSON.stringify(id)}`;
    const args = [mark, this.#dialect.popSide, searched, SEARCHED_BYTES];
    return (await this.#redis.run(withdrawById, [list], args)) > 0;
  }

  /** Pops up to `count` elements from a list without waiting. */
  async popNow(list: string, count: number): Promise<readonly string[]> {
    const command = [this.#popVerb, list, String(count)];
    return (await this.#redis.send<string[] | null>(command, { key: list })) ?? [];
  }

  /** The length of a list. Throws WrongKeyTypeError. */
  async length(list: string): Promise<number> {
    try {
      return Number(await this.#redis.send(["LLEN", list], { key: list, repeatable: true }));
    } catch (error) {
      throw explain(error, list);
    }
  }

  /** The keys that are not lists. */
  async wrongTypes(keys: readonly string[]): Promise<readonly string[]> {
    const types = await Promise.all(
      keys.map((key) => this.#redis.send<string>(["TYPE", key], { key, repeatable: true })),
    );
    return keys.filter((_, i) => types[i] !== "list" && types[i] !== "none");
  }

  /** Adds a message that cannot be run, with the reason, to a bounded list. */
  async deadLetter(list: string, note: string): Promise<void> {
    await Promise.all([
      this.#redis.send(["LPUSH", list, note], { key: list }),
      this.#redis.send(["LTRIM", list, "0", DEAD_LETTERS], { key: list, repeatable: true }),
    ]);
  }

  async delete(key: string): Promise<void> {
    await this.#redis.send(["DEL", key], { key, repeatable: true });
  }

  get #popVerb(): "RPOP" | "LPOP" {
    return this.#dialect.popSide === "RIGHT" ? "RPOP" : "LPOP";
  }
}
