/**
 * What the package measures. Names and meanings: docs/reference/metrics.md, which a test keeps in step.
 * Names of locks, mailboxes and rooms never become attributes: their number has no bound.
 */
import { type Counter, type Histogram, type MeterProvider, metrics } from "@opentelemetry/api";
import { meterOf } from "@ropeway/core/internal";

/** Every instrument of the package. */
export const INSTRUMENTS = {
  wait: ["ropeway.kit.wait", "From asking for a lock or permit to the outcome, ms"],
  held: ["ropeway.kit.held", "How long a lock or permit was held, ms"],
  lost: ["ropeway.kit.leases.lost", "Leases that ended before their holder was done"],
  sent: ["ropeway.kit.messages.sent", "Messages sent"],
  received: ["ropeway.kit.messages.received", "Messages received from mailboxes"],
  fileBytes: ["ropeway.kit.file.bytes", "Bytes of files sent to Redis or received from it"],
} as const;

/** What is held under a lease. */
export type LeaseKind = "lock" | "permit" | "message" | "file";

/** The instruments of one meter provider. */
class KitMetrics {
  readonly #wait: Histogram;
  readonly #held: Histogram;
  readonly #lost: Counter;
  readonly #sent: Counter;
  readonly #received: Counter;
  readonly #fileBytes: Counter;

  constructor() {
    const meter = meterOf("kit");
    const counter = ([name, description]: readonly [string, string]) =>
      meter.createCounter(name, { description });
    const histogram = ([name, description]: readonly [string, string]) =>
      meter.createHistogram(name, { description, unit: "ms" });
    this.#wait = histogram(INSTRUMENTS.wait);
    this.#held = histogram(INSTRUMENTS.held);
    this.#lost = counter(INSTRUMENTS.lost);
    this.#sent = counter(INSTRUMENTS.sent);
    this.#received = counter(INSTRUMENTS.received);
    this.#fileBytes = counter(INSTRUMENTS.fileBytes);
  }

  noteWait(kind: "lock" | "permit", outcome: "acquired" | "failed", ms: number): void {
    this.#wait.record(ms, { kind, outcome });
  }

  /** The end of a lease. Messages and files have one per step, so only locks and permits are timed. */
  noteLease(kind: LeaseKind, outcome: "ended" | "lost", ms: number): void {
    if (outcome === "lost") this.#lost.add(1, { kind });
    if (kind === "lock" || kind === "permit") this.#held.record(ms, { kind });
  }

  noteSent(kind: "mailbox" | "chat"): void {
    this.#sent.add(1, { kind });
  }

  noteReceived(messages: number): void {
    if (messages > 0) this.#received.add(messages);
  }

  noteFile(direction: "sent" | "received", bytes: number): void {
    this.#fileBytes.add(bytes, { direction });
  }
}

const known = new WeakMap<MeterProvider, KitMetrics>();

/** The instruments of the SDK that is installed now; those that do nothing if there is none. */
export function kitMetrics(): KitMetrics {
  const provider = metrics.getMeterProvider();
  let found = known.get(provider);
  if (found === undefined) {
    found = new KitMetrics();
    known.set(provider, found);
  }
  return found;
}
