/**
 * Every key of the merge queue. The first seven names are the seed's; the rest is what we add beside
 * them, so that a program written to the seed still finds what it knows where it knows it.
 *
 *   p:action:push            channel  "insert" after every push
 *   p:timer                  zset     key -> when it fires, unix seconds with a millisecond fraction
 *   p:queue:K                list     bodies as pushed, oldest first
 *   p:queue:K:data           hash     the application's fields; gone with the last item
 *   p:queue:K:locker         string   token of whoever holds the batch; expires with the lease
 *   p:queue:K:overwrite      string   "1" while a batch is out or failed: the next push sets the time
 *   p:queue:K:start          string   when schedule() handed the key out; gone with get()
 *
 *   p:queue:K:items          list     one head per body: "id pushedMs traceparent|- contentType"
 *   p:queue:K:state          hash     batch, delivery, attempts, next, bound, bytes, starts, error
 *   p:queue:K:dead           zset     ids of the key's dead letters by time
 *   p:singles                zset     the keys that deliver item by item, in order of their text
 *   p:dead                   zset     id -> when it died
 *   p:dead:ID                hash     key, reason, attempts, items, delivery, at
 *   p:dead:ID:bodies|items   list     as in the queue
 *   p:dead:ID:data           hash     as in the queue
 *   p:idempotency:K KEY      string   the answer to a push, for its repetitions; expires
 *   p:paused                 string   exists while nothing is handed out
 *   p:paused:keys            set      keys that are not handed out
 *   p:broken                 zset     keys whose list is no list, by when that was noticed
 *   p:endpoints              zset     URL -> last use
 *   p:endpoint:URL           hash     health of one target
 *   p:breaker:ORIGIN         hash     circuit breaker of one origin
 *
 * All keys of one prefix are one unit of atomicity: on Cluster the prefix carries the hash tag.
 */
import { checkPrefix, hashTag } from "@ropeway/core/internal";
import { InvalidKeyError } from "./errors.ts";

/** Spells the keys of one prefix. */
export class MergeKeys {
  readonly prefix: string;

  constructor(prefix: string) {
    checkPrefix(prefix);
    this.prefix = prefix;
  }

  /** Whether all keys of the prefix live on one Cluster slot. */
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

  /** List. */
  queue(key: string): string {
    return `${this.prefix}:queue:${key}`;
  }

  /** List. */
  items(key: string): string {
    return `${this.queue(key)}:items`;
  }

  /** Hash. */
  data(key: string): string {
    return `${this.queue(key)}:data`;
  }

  /** String. */
  locker(key: string): string {
    return `${this.queue(key)}:locker`;
  }

  /** String. */
  overwrite(key: string): string {
    return `${this.queue(key)}:overwrite`;
  }

  /** String. */
  start(key: string): string {
    return `${this.queue(key)}:start`;
  }

  /** Hash. */
  state(key: string): string {
    return `${this.queue(key)}:state`;
  }

  /** Sorted set. */
  deadOf(key: string): string {
    return `${this.queue(key)}:dead`;
  }

  /** String. */
  idempotency(key: string, idempotencyKey: string): string {
    return `${this.prefix}:idempotency:${key} ${idempotencyKey}`;
  }

  /** Hash. */
  endpoint(url: string): string {
    return `${this.prefix}:endpoint:${url}`;
  }

  /** Hash. */
  breaker(origin: string): string {
    return `${this.prefix}:breaker:${origin}`;
  }

  /** KEYS 1-9 of every script that works on one key; the scripts' headers call it "the unit". */
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
    ];
  }

  /** KEYS 1-6 of push.lua, or 1-8 when it also needs the data and the singles. */
  pushed(key: string, whole: boolean): string[] {
    const queue = this.queue(key);
    const keys = [this.timer, queue, `${queue}:items`, `${queue}:locker`];
    keys.push(`${queue}:overwrite`, `${queue}:state`);
    if (whole) keys.push(`${queue}:data`, this.singles);
    return keys;
  }

  /** The six keys of one dead letter; behind the unit in KEYS. */
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

/** Endings that would make one queue's list another queue's companion. */
const RESERVED = /:(?:items|data|locker|overwrite|start|state|dead)$/;
const LONGEST = 4_096;

/** Refuses a queue key whose list would have the name of another key of ours. */
export function checkKey(key: string): void {
  if (key === "" || key.length > LONGEST) {
    throw new InvalidKeyError(key, `must have 1 to ${LONGEST} characters`);
  }
  if (RESERVED.test(key)) {
    throw new InvalidKeyError(key, "must not end like one of the queue's own keys, such as :data");
  }
}
