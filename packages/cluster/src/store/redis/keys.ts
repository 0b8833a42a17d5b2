/**
 * Every key of the Redis store. A path of the store is one key with the value as plain text; the rest is
 * bookkeeping, whose names begin with "@" where paths begin with "/".
 *
 *   ropeway:store:/tasks/taskid/task_1      a value
 *   ropeway:store:@state                    the revision
 *
 * All keys of a store are changed together, so on Redis Cluster they need one hash tag. A prefix without
 * a tag gets one there: {ropeway:store}:/tasks/...
 */
import type { Redis } from "@ropeway/core";
import { checkPrefix, hashTag } from "@ropeway/core/internal";

/** The default of the `prefix` option. */
export const DEFAULT_PREFIX = "ropeway:store";

/** The keys of one store. */
export class RedisStoreKeys {
  readonly #prefix: string;

  constructor(prefix: string, topology: Redis["topology"]) {
    checkPrefix(prefix);
    const tagged = topology !== "cluster" || hashTag(prefix) !== undefined;
    this.#prefix = tagged ? prefix : `{${prefix}}`;
  }

  /** string: the value of a path. */
  value(path: string): string {
    return `${this.#prefix}:${path}`;
  }

  /** hash: `revision` the newest one, `born` the first one, `id` a random name of this history. */
  get state(): string {
    return `${this.#prefix}:@state`;
  }

  /** zset of score 0: every path, for reading by prefix. */
  get index(): string {
    return `${this.#prefix}:@index`;
  }

  /** hash: path -> createRevision SPACE modRevision SPACE version SPACE lease. */
  get meta(): string {
    return `${this.#prefix}:@meta`;
  }

  /** stream: one entry per change, with the id revision-n; fields t, k, v, m. */
  get log(): string {
    return `${this.#prefix}:@log`;
  }

  /** zset: lease -> ms when it ends. A lease is named ttl-random. */
  get leases(): string {
    return `${this.#prefix}:@leases`;
  }

  /** zset of score 0: lease SPACE path, for every path that a lease holds. */
  get held(): string {
    return `${this.#prefix}:@held`;
  }
}
