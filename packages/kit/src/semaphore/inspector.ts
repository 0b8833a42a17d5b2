/** The operator's view of semaphores: which are in use, and how many permits they have. */
import type { Page, Redis } from "@ropeway/core";
import { type OptionTable, requireRedis, resolveOptions } from "@ropeway/core/internal";
import { headOf, prefixSpec } from "../keyspace.ts";
import { type ListOptions, scanNames, viewsOf } from "../store/scan.ts";
import { isSemaphoreName } from "./keys.ts";
import { checkLimit } from "./options.ts";
import { SemaphoreStore, type SemaphoreUse } from "./store.ts";

/** Which semaphores. */
export interface SemaphoreInspectorOptions {
  /** In front of every key. @default "" */
  readonly prefix?: string;
}

const table: OptionTable<SemaphoreInspectorOptions> = { prefix: prefixSpec };

/** The semaphores under one prefix. */
export class SemaphoreInspector {
  readonly #redis: Redis;
  readonly #prefix: string;

  constructor(redis: Redis, options?: SemaphoreInspectorOptions) {
    requireRedis(redis);
    this.#redis = redis;
    this.#prefix = resolveOptions(table, options).prefix;
  }

  /** The semaphores of which one of our processes holds a permit, page by page. */
  async list(options?: ListOptions): Promise<Page<SemaphoreUse>> {
    const between = { before: headOf(this.#prefix), after: ":leases", type: "zset" as const };
    const { items, ...rest } = await scanNames(this.#redis, between, options);
    return {
      items: await viewsOf(items.filter(isSemaphoreName), (name) => this.#use(name)),
      ...rest,
    };
  }

  /** One semaphore; undefined if no process holds a permit or waits and resize() has set no limit. */
  async get(name: string): Promise<SemaphoreUse | undefined> {
    const use = await this.#use(name);
    return use.held + use.waiting > 0 || use.limit !== undefined ? use : undefined;
  }

  /**
   * Sets the limit for all processes, as resize() of a Semaphore does; undefined: the `limit` option of each
   * process counts again.
   */
  async resize(name: string, limit: number | undefined): Promise<void> {
    checkLimit(limit);
    await this.#store(name).resize(limit);
  }

  async #use(name: string): Promise<SemaphoreUse> {
    return this.#store(name).use();
  }

  // Its `limit` and `ttlMs` are those of the processes that use it, and are not known here.
  #store(name: string): SemaphoreStore {
    return new SemaphoreStore(this.#redis, name, { prefix: this.#prefix, limit: 1, ttlMs: 0 });
  }
}
