/** All Redis traffic of one mailbox. */
import type { Redis, Reply } from "@ropeway/core";
import { checkName, checkSlots } from "../keyspace.ts";
import { sendSlots } from "../send-slots.ts";
import { refused } from "../store/refused.ts";
import { type WakeList, wakeListOf } from "../store/wake-list.ts";
import { type MailboxKeys, mailboxKeys } from "./keys.ts";
import { pageScript, sendScript, settleScript, takeScript, undoScript } from "./scripts.ts";

/** A message on its way into the box. */
export interface NewMessage {
  readonly id: string;
  /** JSON, or "". */
  readonly sender: string;
  readonly message: string;
  /** 0: no end. */
  readonly ttlMs: number;
  readonly maxMessages: number;
  readonly overflow: "reject" | "drop-oldest";
}

/** What to take. */
export interface TakeRequest {
  readonly max: number;
  readonly leaseMs: number;
  readonly attempts: number;
  /** Woken with this token if there is nothing now. */
  readonly wake?: { readonly token: string; readonly withinMs: number };
}

/** A message as it is in Redis, under a lease. */
export interface RawMessage {
  readonly id: string;
  readonly attempt: string;
  readonly body: string;
}

/** What was taken. */
interface TakenMessages {
  readonly leaseEndsMs: number;
  readonly messages: readonly RawMessage[];
}

/** A message that was handed out. */
export interface HandedOut extends Omit<RawMessage, "body"> {
  /** How long the message is, as far as it is known. */
  readonly length?: number;
}

/** How messages stop being handed out. */
export type Settlement = "done" | "back" | "dead" | "undo" | "extend";

const MOST_DEAD = 1_000;
/** How many characters of messages one call of settle.lua handles: larger ones would hold up Redis. */
const MOST_SETTLED = 1_048_576;
/** How many messages one call of take.lua hands out, for the same reason. */
const MOST_AT_ONCE = 250;
/** How many characters of messages are handed out together, as in take.lua. */
const MOST_TAKEN = 1_048_576;

/** One mailbox in Redis. */
export class MailboxStore {
  readonly redis: Redis;
  readonly keys: MailboxKeys;
  readonly wakes: WakeList;

  constructor(redis: Redis, name: string, prefix: string) {
    checkName("the recipient", name);
    this.redis = redis;
    this.keys = mailboxKeys(prefix, name);
    checkSlots(redis, Object.values(this.keys));
    this.wakes = wakeListOf(redis, prefix);
  }

  /** Appends a message. False if the box is full. */
  async put(message: NewMessage): Promise<boolean> {
    const { box, leases, waiters, sends, tries } = this.keys;
    const { id, sender, ttlMs, maxMessages, overflow } = message;
    const args = [id, sender, message.message, ttlMs, maxMessages, overflow];
    const reply = await sendSlots.run(({ slot, number }) => {
      const keys = [box, leases, waiters, sends, tries];
      const running = this.redis.run(sendScript, keys, [...args, slot, number]);
      return refused({ what: "a message", key: box }, running);
    });
    const [list, token] = reply[2] as readonly string[];
    if (list !== undefined) this.wakes.deliver([{ list, message: token as string }]);
    return Number(reply[0]) >= 0;
  }

  /**
   * Takes messages under a lease, in short steps; `leaseEndsMs` is when the next one may come back. If a step
   * fails, the messages of those before it are returned.
   */
  async take(request: TakeRequest): Promise<TakenMessages> {
    const max = Math.min(request.max, MOST_AT_ONCE);
    const first = await this.#takeSome({ ...request, max });
    const messages = [...first.messages];
    let characters = lengthOf(first.messages);
    for (let full = messages.length === max; full && characters < MOST_TAKEN; ) {
      const rest = Math.min(request.max - messages.length, MOST_AT_ONCE);
      if (rest === 0) break;
      const { leaseMs, attempts } = request;
      const some = await this.#takeSome({ leaseMs, attempts, max: rest }).catch(() => undefined);
      if (some === undefined) break;
      messages.push(...some.messages);
      characters += lengthOf(some.messages);
      full = some.messages.length === rest;
    }
    return { leaseEndsMs: first.leaseEndsMs, messages };
  }

  async #takeSome({ max, leaseMs, attempts, wake }: TakeRequest): Promise<TakenMessages> {
    const { box, leases, taken, tries, dead, waiters } = this.keys;
    const who = wake === undefined ? "" : `${this.wakes.key} ${wake.token}`;
    const args = [max, leaseMs, attempts, who, wake?.withinMs ?? 0, MOST_DEAD];
    const keys = [box, leases, taken, tries, dead, waiters];
    const running = this.redis.run(takeScript, keys, args);
    const [leaseEndsMs, ...flat] = await refused({ what: "a lease", key: box }, running);
    const messages: RawMessage[] = [];
    for (let i = 0; i + 2 < flat.length; i += 3) {
      const [id, attempt, body] = flat.slice(i, i + 3) as [string, string, string];
      messages.push({ id, attempt, body });
    }
    return { leaseEndsMs: Number(leaseEndsMs), messages };
  }

  /** Ends or prolongs leases; says for each message whether its lease was still ours. */
  async settle(
    how: Settlement,
    messages: readonly HandedOut[],
    { leaseMs = 0, attempts = 1 }: { readonly leaseMs?: number; readonly attempts?: number } = {},
  ): Promise<readonly boolean[]> {
    const { box, leases, taken, tries, dead } = this.keys;
    const keys = [box, leases, taken, tries, dead];
    const settled: boolean[] = [];
    for (const some of groupsOf(messages)) {
      const pairs = some.flatMap(({ id, attempt }) => [id, attempt]);
      const args = [how, leaseMs, attempts, MOST_DEAD, ...pairs];
      const running = this.redis.run(how === "undo" ? undoScript : settleScript, keys, args);
      const reply = await refused({ what: "a message", key: box }, running);
      settled.push(...reply.map((ours) => ours === 1));
    }
    return settled;
  }

  /** Makes a message that cannot be read a dead letter. */
  async bury(message: { readonly id: string; readonly attempt: string }): Promise<void> {
    await this.settle("dead", [message]);
  }

  /** Messages that wait, without taking them; fewer than `limit` if they are large. */
  async range(
    of: "box" | "dead",
    first: number,
    limit: number,
  ): Promise<{ bodies: readonly string[]; more: boolean }> {
    const running = this.redis.run(pageScript, [this.keys[of]], [first, limit]);
    const [more, ...bodies] = await refused({ what: "a page", key: this.keys[of] }, running);
    return { bodies, more: more === 1 };
  }

  async counts(): Promise<{ waiting: number; taken: number; dead: number }> {
    const [waiting, taken, dead] = await Promise.all([
      this.#ask<number>("LLEN", this.keys.box),
      this.#ask<number>("ZCARD", this.keys.leases),
      this.#ask<number>("LLEN", this.keys.dead),
    ]);
    return { waiting, taken, dead };
  }

  async clear(): Promise<void> {
    await this.#ask("UNLINK", ...Object.values(this.keys));
  }

  #ask<T extends Reply>(...command: string[]): Promise<T> {
    return this.redis.send<T>(command, { repeatable: true, key: this.keys.box });
  }
}

function lengthOf(messages: readonly RawMessage[]): number {
  return messages.reduce((sum, { body }) => sum + body.length, 0);
}

/** Messages in their order, at most MOST_SETTLED characters together unless one alone has more. */
function groupsOf(messages: readonly HandedOut[]): HandedOut[][] {
  const groups: HandedOut[][] = [];
  let left = 0;
  for (const message of messages) {
    const { length = 0 } = message;
    if (groups.length === 0 || length > left) {
      groups.push([]);
      left = MOST_SETTLED;
    }
    left -= length;
    groups.at(-1)?.push(message);
  }
  return groups;
}
