/**
 * Messages for one recipient, kept until it acknowledges them. A documented program pops them from
 * the list and loses what it cannot finish; here a message is handed out under a lease, and comes back
 * to the front of the box if it is not acknowledged in time.
 *
 *   send ---> box ----- receive -----> handed out ----- acknowledge ----> gone
 *              ^                           |
 *              '---- release, lease ended -'---- too many attempts ----> dead letters
 */
import {
  AbortedError,
  InvalidArgumentError,
  OverloadedError,
  type Page,
  type Redis,
  TimeoutError,
} from "@ropeway/core";
import { IdSource, newToken, requireRedis } from "@ropeway/core/internal";
import { AWAY_MS, isAway } from "../away.ts";
import { Bell } from "../bell.ts";
import { bounded } from "../bounded.ts";
import { jsonOf } from "../json-of.ts";
import { safetyOf } from "../lease.ts";
import { kitMetrics } from "../metrics.ts";
import { type Delivery, LeasedDelivery } from "./delivery.ts";
import { type DeadLetter, type Envelope, readEnvelope, readLetter } from "./envelope.ts";
import {
  type MailboxOptions,
  type PageOptions,
  type ReceiveOptions,
  resolveMailboxOptions,
  resolvePageOptions,
  resolveReceiveOptions,
  resolveSendOptions,
  type SendOptions,
} from "./options.ts";
import { type HandedOut, MailboxStore } from "./store.ts";

/** How often an idle receiver polls, for lost wake-ups and for messages of other programs. */
const LOOK_MS = 1_000;

const ids = new IdSource();

/** How many messages there are. */
export interface MailboxCounts {
  readonly waiting: number;
  readonly taken: number;
  readonly dead: number;
}

/** The mailbox of one recipient. */
export class Mailbox<Message = unknown> {
  readonly name: string;
  readonly #options: Required<MailboxOptions>;
  readonly #store: MailboxStore;

  constructor(redis: Redis, name: string, options?: MailboxOptions) {
    requireRedis(redis);
    this.name = name;
    this.#options = resolveMailboxOptions(options);
    this.#store = new MailboxStore(redis, name, this.#options.prefix);
  }

  /** Puts a message into the box and returns its id. Throws OverloadedError if the box is full. */
  async send(message: Message, options?: SendOptions): Promise<string> {
    const { sender, ttlMs = this.#options.ttlMs } = resolveSendOptions(options);
    const { maxMessages, overflow, maxMessageBytes } = this.#options;
    const json = jsonOf(message);
    if (Buffer.byteLength(json) > maxMessageBytes) {
      throw new InvalidArgumentError("message", json, `at most ${maxMessageBytes} bytes as JSON`);
    }
    const id = ids.next();
    const from = sender === undefined ? "" : JSON.stringify(sender);
    const fits = await this.#store.put({
      ...{ id, sender: from, message: json, ttlMs: ttlMs ?? 0 },
      ...{ maxMessages, overflow },
    });
    if (!fits) {
      throw new OverloadedError(
        `mailbox ${JSON.stringify(this.name)}`,
        `${maxMessages} messages wait`,
      );
    }
    kitMetrics().noteSent("mailbox");
    return id;
  }

  /**
   * The oldest messages, each under a lease; empty if none came within `waitMs`. While Redis is away,
   * receive() also waits. Throws TimeoutError if Redis did not reply within `waitMs`.
   */
  async receive(options?: ReceiveOptions): Promise<Delivery<Message>[]> {
    const { max, waitMs, signal } = resolveReceiveOptions(options);
    const until = performance.now() + (waitMs ?? Number.POSITIVE_INFINITY);
    const token = newToken();
    const bell = new Bell(signal);
    try {
      for (;;) {
        const leftMs = Math.min(LOOK_MS, until - performance.now());
        const waits = leftMs > 0 && signal?.aborted !== true;
        if (waits) this.#store.wakes.expect(token, bell.ring);
        const wake = waits ? { token, withinMs: LOOK_MS } : undefined;
        const boundMs = waitMs && Math.max(1, Math.ceil(until - performance.now()));
        const taken = await this.#takeWithin({ max, wake }, { waitMs: boundMs, signal });
        if (taken === "away") {
          await bell.wait(Math.min(AWAY_MS, leftMs));
          continue;
        }
        const { found, leaseEndsMs } = taken;
        if (found.length > 0 || (!waits && leaseEndsMs !== 0)) return found;
        await bell.wait(leaseEndsMs < 0 ? leftMs : Math.min(leftMs, leaseEndsMs));
      }
    } catch (error) {
      if (signal?.aborted && error instanceof AbortedError) return [];
      throw error;
    } finally {
      this.#store.wakes.forget(token);
      bell.close();
    }
  }

  /** Every message as it comes, until the signal aborts. Acknowledge each. */
  async *listen(options: {
    readonly signal: AbortSignal;
  }): AsyncGenerator<Delivery<Message>, void> {
    const { signal } = resolveReceiveOptions(options);
    while (signal?.aborted !== true) {
      const [delivery] = await this.receive({ waitMs: null, signal });
      if (delivery !== undefined) yield delivery;
    }
  }

  /** Removes messages permanently, in few commands; says for each whether its lease was still ours. */
  async acknowledge(deliveries: readonly Delivery<Message>[]): Promise<readonly boolean[]> {
    if (!Array.isArray(deliveries) || !deliveries.every((one) => typeof one?.id === "string")) {
      throw new InvalidArgumentError("deliveries", deliveries, "an array of deliveries");
    }
    if (deliveries.length === 0) return [];
    const ends = deliveries.map((one) => (one instanceof LeasedDelivery ? one.end() : undefined));
    const raw = deliveries.map(rawOf);
    const settled = await this.#store.settle("done", raw);
    return settled.map((ours, i) => ends[i]?.(ours) ?? ours);
  }

  /** Messages that wait, oldest first, without taking them. Those that are not JSON are left out. */
  async peek(options?: PageOptions): Promise<Page<Envelope<Message>>> {
    const { items, ...rest } = await this.#page("box", options);
    return { items: items.flatMap((body) => readEnvelope<Message>(body) ?? []), ...rest };
  }

  /** Messages that came back too often, or are not JSON, newest first. */
  async deadLetters(options?: PageOptions): Promise<Page<DeadLetter<Message>>> {
    const { items, ...rest } = await this.#page("dead", options);
    return { items: items.map((body) => readLetter<Message>(body)), ...rest };
  }

  /** How many messages wait, are handed out, and are dead letters. */
  counts(): Promise<MailboxCounts> {
    return this.#store.counts();
  }

  /** Removes all messages, also those handed out and dead letters. */
  clear(): Promise<void> {
    return this.#store.clear();
  }

  /** Takes messages while the caller waits for them; "away": Redis cannot be used, and there is time left. */
  async #takeWithin(
    { max, wake }: Taking,
    { waitMs, signal }: { waitMs: number | null; signal: AbortSignal | undefined },
  ): Promise<Taken<Message> | "away"> {
    const what = `receiving from mailbox ${JSON.stringify(this.name)}`;
    const taking = this.#take(max, wake);
    try {
      return await bounded(this.#store.redis, taking, {
        ...{ what, waitMs, signal },
        timedOut: () => new TimeoutError(what, waitMs ?? 0),
      });
    } catch (error) {
      taking.then(({ found }) => this.#undo(found)).catch(() => {}); // its messages come back by their lease
      if (wake !== undefined && isAway(error)) return "away";
      throw error;
    }
  }

  /** Puts messages back that were taken when no caller waited for them any more. */
  async #undo(found: readonly Delivery<Message>[]): Promise<void> {
    for (const delivery of found) (delivery as LeasedDelivery<Message>).end();
    const raw = found.map(rawOf);
    if (raw.length > 0) await this.#store.settle("undo", raw.reverse());
  }

  async #take(max: number, wake: Taking["wake"]): Promise<Taken<Message>> {
    const { leaseMs, attempts } = this.#options;
    const sentAt = performance.now();
    const request = { max, leaseMs, attempts, ...(wake && { wake }) };
    const { leaseEndsMs, messages } = await this.#store.take(request);
    const safeUntil = sentAt + leaseMs - safetyOf(leaseMs);
    const found: Delivery<Message>[] = [];
    for (const { id, attempt, body } of messages) {
      const envelope = readEnvelope<Message>(body);
      if (envelope === undefined) {
        await this.#store.bury({ id, attempt });
        this.#store.redis.logger.warn(
          { mailbox: this.name },
          "a message is no JSON; it is a dead letter now",
        );
      } else {
        found.push(
          new LeasedDelivery<Message>(
            this.#store,
            { id, attempt, envelope, length: body.length },
            { leaseMs, safeUntil, attempts },
          ),
        );
      }
    }
    kitMetrics().noteReceived(found.length);
    const again = messages.length > 0 && found.length === 0;
    return again ? this.#take(max, wake) : { leaseEndsMs, found };
  }

  async #page(of: "box" | "dead", options?: PageOptions): Promise<Page<string>> {
    const { cursor, limit } = resolvePageOptions(options);
    const first = Number(cursor ?? 0);
    const { bodies: items, more } = await this.#store.range(of, first, limit);
    return more ? { items, cursor: String(first + items.length) } : { items };
  }
}

/** Identifies a delivery in Redis. */
function rawOf(delivery: Delivery<unknown>): HandedOut {
  if (delivery instanceof LeasedDelivery) return delivery.raw;
  return { id: delivery.id, attempt: String(delivery.attempt) };
}

interface Taking {
  readonly max: number;
  /** Absent: the last attempt. */
  readonly wake: { token: string; withinMs: number } | undefined;
}

interface Taken<Message> {
  readonly leaseEndsMs: number;
  readonly found: Delivery<Message>[];
}
