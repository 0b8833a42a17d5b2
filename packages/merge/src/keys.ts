/**
 * Every key of the merge queue. The first seven names are those of the documented Python wire. The others
 * are added beside them, so that a program written to that wire finds its keys where it expects them.
 *
 *   p:action:push            channel  "insert" after every push
 *   p:timer                  zset     key -> when it fires, unix seconds with a millisecond fraction
 *   p:queue:K                list     bodies as pushed, oldest first
 *   p:queue:K:data           hash     the application's fields; deleted with the last item
 *   p:queue:K:locker         string   token of the batch's holder; expires with the lease
 *   p:queue:K:overwrite      string   "1" while a batch is out or failed: the next push sets the time
 *   p:queue:K:start          string   when schedule() handed the key out; deleted by get()
 *
 *   p:queue:K:items          list     one head per body: "id pushedMs size traceparent|- contentType"
 *   p:queue:K:state          hash     batch, delivery, attempts, next, bound, bytes, starts, error, replayed,
 *                                     request, ghost, unsized, idempotent
 *   p:queue:K:replay         list     bodies of replayed dead letters, in front of fresh items
 *   p:queue:K:replay:items   list     their heads
 *   p:queue:K:dead           zset     ids of the key's dead letters by time
 *   p:queue:K:deleted        string   when the key was last deleted, for idempotency keys; expires
 *   p:singles                zset     keys that deliver item by item, in lexical order
 *   p:dead                   zset     id -> when it died
 *   p:dead:ID                hash     key, reason, attempts, items, delivery, at, request
 *   p:dead:ID:bodies|items   list     as in the queue
 *   p:dead:ID:data           hash     as in the queue
 *   p:idempotency:K KEY      string   the response to a push, for its repetitions; expires
 *   p:paused                 string   exists while everything is paused
 *   p:paused:keys            set      keys that are paused
 *   p:broken                 zset     keys whose list has another type, by when that was noticed
 *   p:endpoints              zset     URL -> last use
 *   p:endpoints:marked       zset     URLs that an operator paused, disabled or limited, by time
 *   p:endpoint:URL           hash     health, limits and secrets of one endpoint
 *   p:active:URL             zset     deliveries under way at an endpoint with a concurrency limit
 *   p:breaker:ORIGIN         hash     circuit breaker of one origin
 *   p:breakers               zset     ORIGIN -> until when its breaker is open, ms since 1970
 *   p:totals                 hash     counters of all dispatchers
 *   p:attempts               stream   the last attempts of all dispatchers, bounded
 *   p:action:schedule        channel  "change" after every change of a schedule
 *   p:schedules              zset     id -> when it pushes next, ms since 1970; +inf: paused or ended
 *   p:schedule:ID            hash     schedule, times, revision, state, runs, last, error
 *
 * All keys of one prefix are one unit of atomicity. On Cluster the prefix contains the hash tag.
 */
import { InvalidNameError } from "@ropeway/core";
import { checkPrefix, hashTag } from "@ropeway/core/internal";

/** Spells the keys of one prefix. */
export class MergeKeys {
  readonly prefix: string;

  constructor(prefix: string) {
    checkPrefix(prefix);
    this.prefix = prefix;
  }

  /** Whether all keys of the prefix are on one Cluster slot. */
  get tagged(): boolean {
    return hashTag(this.prefix) !== undefined;
  }

  /** Pub/sub channel. */
  get channel(): string {
    return `${this.prefix}:action:push`;
  }

  /** Sorted set. */
  get timer(): string {
    return `${this.prefix}:timer`;
  }

  /** Sorted set, all scores 0. */
  get singles(): string {
    return `${this.prefix}:singles`;
  }

  /** String. */
  get paused(): string {
    return `${this.prefix}:paused`;
  }

  /** Set. */
  get pausedKeys(): string {
    return `${this.prefix}:paused:keys`;
  }

  /** Sorted set. */
  get dead(): string {
    return `${this.prefix}:dead`;
  }

  /** Sorted set. */
  get broken(): string {
    return `${this.prefix}:broken`;
  }

  /** Sorted set. */
  get endpoints(): string {
    return `${this.prefix}:endpoints`;
  }

  /** Sorted set. */
  get marked(): string {
    return `${this.prefix}:endpoints:marked`;
  }

  /** Stream. */
  get attempts(): string {
    return `${this.prefix}:attempts`;
  }

  /** Sorted set. */
  get breakers(): string {
    return `${this.prefix}:breakers`;
  }

  /** Hash. */
  get totals(): string {
    return `${this.prefix}:totals`;
  }

  /** Pub/sub channel. */
  get scheduleChannel(): string {
    return `${this.prefix}:action:schedule`;
  }

  /** Sorted set. */
  get schedules(): string {
    return `${this.prefix}:schedules`;
  }

  /** Hash. */
  schedule(id: string): string {
    return `${this.prefix}:schedule:${id}`;
  }

  /** List. */
  queue(key: string): string {
    return `${this.prefix}:queue:${key}`;
  }

  /** List. */
  items(key: string): string {
    return `${this.queue(key)}:items`;
  }

  /** Sorted set. */
  deadOf(key: string): string {
    return `${this.queue(key)}:dead`;
  }

  /** String. */
  deleted(key: string): string {
    return `${this.queue(key)}:deleted`;
  }

  /** String. */
  idempotency(key: string, idempotencyKey: string): string {
    return `${this.prefix}:idempotency:${key} ${idempotencyKey}`;
  }

  /** Hash. */
  endpoint(url: string): string {
    return `${this.prefix}:endpoint:${url}`;
  }

  /** Sorted set. Its name cannot begin like an endpoint's record, because a URL can end in anything. */
  active(url: string): string {
    return `${this.prefix}:active:${url}`;
  }

  /** Hash. */
  breaker(origin: string): string {
    return `${this.prefix}:breaker:${origin}`;
  }

  /** KEYS 1-11 of every script that works on one key. The scripts' headers call them "the unit". */
  unit(key: string): string[] {
    const queue = this.queue(key);
    return [
      this.timer,
      queue,
      `${queue}:items`,
      `${queue}:data`,
      `${queue}:locker`,
      `${queue}:overwrite`,
      `${queue}:start`,
      `${queue}:state`,
      this.singles,
      `${queue}:replay`,
      `${queue}:replay:items`,
    ];
  }

  /** KEYS 1-6 of push.lua, or 1-8 when it also needs the data and the singles. */
  pushed(key: string, whole: boolean): string[] {
    const keys = [this.timer];
    this.addPushed(keys, key);
    if (whole) keys.push(`${this.queue(key)}:data`, this.singles);
    return keys;
  }

  /** Appends the five keys of one of several pushes. */
  addPushed(keys: string[], key: string): void {
    const queue = this.queue(key);
    keys.push(queue, `${queue}:items`, `${queue}:locker`, `${queue}:overwrite`, `${queue}:state`);
  }

  /** The six keys of one dead letter; after the unit in KEYS. */
  letter(id: string, key: string): string[] {
    const record = `${this.dead}:${id}`;
    return [
      this.dead,
      record,
      `${record}:bodies`,
      `${record}:items`,
      `${record}:data`,
      this.deadOf(key),
    ];
  }
}

/** Suffixes that would make the list of one queue another key of a second queue. */
const RESERVED = /:(?:items|data|locker|overwrite|start|state|dead|replay|deleted)$/;
const LONGEST = 4_096;

/** Throws InvalidNameError if the key's list would have the same name as another key of ours. */
export function checkKey(key: string): void {
  const isFit = typeof key === "string" && key !== "" && key.length <= LONGEST;
  if (isFit && !RESERVED.test(key) && isWellFormed(key)) return;
  throw new InvalidNameError(
    "key",
    key,
    `a string of 1 to ${LONGEST} characters that does not end in a name of ours, such as :data`,
  );
}

/** Whether a string has a UTF-8 form: a lone surrogate would become another key. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}
