/** A message that was received: held under a lease until it is acknowledged. */
import { InvalidArgumentError } from "@ropeway/core";
import { Lease } from "../lease.ts";
import type { Envelope } from "./envelope.ts";
import { leaseRule } from "./options.ts";
import type { HandedOut, MailboxStore } from "./store.ts";

/** How a delivery is held. */
export interface DeliveryPlan {
  readonly leaseMs: number;
  readonly safeUntil: number;
  /** After this many deliveries the message is a dead letter. */
  readonly attempts: number;
}

/** One message for this receiver. Disposing of it releases it, unless it was acknowledged. */
export interface Delivery<Message> extends AsyncDisposable {
  readonly id: string;
  readonly message: Message;
  readonly sender: string | undefined;
  /** When it was sent, ms since the epoch; undefined for a message of another program. */
  readonly sentAt: number | undefined;
  /** 1 for the first receiver of this message. */
  readonly attempt: number;
  /** Aborts with LeaseLostError before another receiver can get the message. */
  readonly signal: AbortSignal;
  /** Keeps the message for `leaseMs` from now. Throws LeaseLostError if another receiver has it. */
  extend(leaseMs?: number): Promise<void>;
  /**
   * Removes the message permanently. False if its lease ended before and it went back. True also if the message is
   * gone already, because of clear() or because Redis lost its data.
   */
  acknowledge(): Promise<boolean>;
  /**
   * Puts the message back in front of the others, for the next receiver. After the last of its `attempts`
   * it becomes a dead letter instead. The result is that of acknowledge().
   */
  release(): Promise<boolean>;
}

/** A Delivery and the store that it lives in. */
export class LeasedDelivery<Message> implements Delivery<Message> {
  readonly id: string;
  readonly message: Message;
  readonly sender: string | undefined;
  readonly sentAt: number | undefined;
  readonly attempt: number;
  readonly #store: MailboxStore;
  readonly #lease: Lease;
  readonly #attempts: number;
  readonly #length: number;
  #settling = false;

  constructor(
    store: MailboxStore,
    { id, attempt, envelope, length }: HandedOut & { readonly envelope: Envelope<Message> },
    { leaseMs, safeUntil, attempts }: DeliveryPlan,
  ) {
    this.#attempts = attempts;
    this.#length = length ?? 0;
    this.id = id;
    this.attempt = Number(attempt);
    this.message = envelope.message;
    this.sender = envelope.sender;
    this.sentAt = envelope.sentAt;
    this.#store = store;
    this.#lease = new Lease({
      what: `message ${id}`,
      kind: "message",
      logger: store.redis.logger,
      ttlMs: leaseMs,
      renew: false,
      safeUntil,
      extend: async (ttlMs) => {
        const [ours] = await store.settle("extend", [this.raw], { leaseMs: ttlMs ?? 0 });
        return ours === true;
      },
    });
  }

  get signal(): AbortSignal {
    return this.#lease.signal;
  }

  async extend(leaseMs?: number): Promise<void> {
    if (leaseMs !== undefined && !leaseRule.accepts(leaseMs)) {
      throw new InvalidArgumentError("leaseMs", leaseMs, leaseRule.allowed);
    }
    await this.#lease.extend(leaseMs);
  }

  async acknowledge(): Promise<boolean> {
    const wasHeld = this.end();
    const [ours] = await this.#store.settle("done", [this.raw]);
    return wasHeld(ours === true);
  }

  async release(): Promise<boolean> {
    const wasHeld = this.end();
    const [ours] = await this.#store.settle("back", [this.raw], { attempts: this.#attempts });
    return wasHeld(ours === true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#settling) await this.release();
  }

  /** Identifies the delivery in Redis. */
  get raw(): HandedOut {
    return { id: this.id, attempt: String(this.attempt), length: this.#length };
  }

  /**
   * Stops the lease here; the caller settles it. Returns a function that interprets the reply: a command whose reply was
   * lost runs twice, and then reports that the lease is gone. As long as no other receiver can have had the message,
   * that was the first run.
   */
  end(): (ours: boolean) => boolean {
    this.#settling = true;
    const held = this.#lease.end();
    return (ours) => ours || (held && this.#lease.certain);
  }
}
