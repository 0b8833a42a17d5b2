/** The operator's view of locks: which are held, by which processes, and how to break one. */
import { InvalidArgumentError, type Page, type Redis } from "@ropeway/core";
import { type OptionTable, requireRedis, resolveOptions } from "@ropeway/core/internal";
import { prefixSpec } from "../keyspace.ts";
import { type ListOptions, scanNames, viewsOf } from "../store/scan.ts";
import { lockHead } from "./keys.ts";
import { LockStore } from "./store.ts";

/** Which locks. */
export interface LockInspectorOptions {
  /** In front of every key. @default "" */
  readonly prefix?: string;
}

/** A lock that is held. */
export interface LockView {
  readonly name: string;
  /** `read`: shared by readers. `foreign`: held by a program that follows the documented lock. */
  readonly mode: "write" | "read" | "foreign";
  /** Names the holder; "" for readers and for programs that follow the documented lock. */
  readonly owner: string;
  /** A secret: a program that knows it can enter and release the lock. */
  readonly token: string;
  /** The newest fence; undefined if only documented programs have used the lock. */
  readonly fence: number | undefined;
  /** What is left of its time; null: no end. */
  readonly leftMs: number | null;
  readonly readers: number;
  readonly waiting: number;
}

const table: OptionTable<LockInspectorOptions> = { prefix: prefixSpec };

/** The locks under one prefix. */
export class LockInspector {
  readonly #redis: Redis;
  readonly #prefix: string;

  constructor(redis: Redis, options?: LockInspectorOptions) {
    requireRedis(redis);
    this.#redis = redis;
    this.#prefix = resolveOptions(table, options).prefix;
  }

  /** The locks that are held now, page by page. */
  async list(options?: ListOptions): Promise<Page<LockView>> {
    const of = { before: lockHead(this.#prefix), type: "string" } as const;
    const { items, ...rest } = await scanNames(this.#redis, of, options);
    return { items: await viewsOf(items, (name) => this.get(name)), ...rest };
  }

  /** One lock, or undefined if it is not held. */
  get(name: string): Promise<LockView | undefined> {
    return this.#store(name).view(name);
  }

  /**
   * Takes the lock from its holder and hands it to the next waiter. With `token`, only from that holder.
   * The holder learns of it with its next renewal. Returns false if it is not held, or another token holds
   * it.
   */
  async break(name: string, token?: string): Promise<boolean> {
    if (token !== undefined && (typeof token !== "string" || token === "")) {
      throw new InvalidArgumentError("token", token, "the token of a holder");
    }
    return this.#store(name).break(token);
  }

  #store(name: string): LockStore {
    return new LockStore(this.#redis, name, { prefix: this.#prefix, mode: "write", fair: true });
  }
}
