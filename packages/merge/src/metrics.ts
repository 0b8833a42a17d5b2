/**
 * What the package measures. Names and meanings: docs/reference/metrics.md, which a test keeps in step.
 * Merge keys and URLs never become attributes: they are without number.
 */
import { type Counter, type Histogram, type Span, SpanKind, trace } from "@opentelemetry/api";
import { contextOf, meterOf, tracerOf } from "@ropeway/core/internal";
import type { Batch } from "./queue.ts";
import type { Verdict } from "./verdict.ts";

/** Every instrument of the package. */
export const INSTRUMENTS = {
  deliveries: ["ropeway.merge.deliveries", "Batches that a handler gave a verdict on, by result"],
  items: ["ropeway.merge.items", "Items in these batches, by result"],
  lateness: ["ropeway.merge.lateness", "How long a batch had been due when it was taken, ms"],
  duration: ["ropeway.merge.delivery.duration", "From taking a batch to its verdict, ms"],
  originFull: ["ropeway.merge.origin.full", "Due keys that found all places of their origin taken"],
  leaseLost: ["ropeway.merge.lease.lost", "Verdicts that came after the lease"],
} as const;

/** The instruments, made when a dispatcher starts: by then the application has installed its SDK. */
export class DeliveryMetrics {
  readonly #deliveries: Counter;
  readonly #items: Counter;
  readonly #lateness: Histogram;
  readonly #duration: Histogram;
  readonly #originFull: Counter;
  readonly #leaseLost: Counter;

  constructor() {
    const meter = meterOf("merge");
    const counter = ([name, description]: readonly [string, string]) =>
      meter.createCounter(name, { description });
    const histogram = ([name, description]: readonly [string, string]) =>
      meter.createHistogram(name, { description, unit: "ms" });
    this.#deliveries = counter(INSTRUMENTS.deliveries);
    this.#items = counter(INSTRUMENTS.items);
    this.#lateness = histogram(INSTRUMENTS.lateness);
    this.#duration = histogram(INSTRUMENTS.duration);
    this.#originFull = counter(INSTRUMENTS.originFull);
    this.#leaseLost = counter(INSTRUMENTS.leaseLost);
  }

  noteDelivery(batch: Batch, verdict: Verdict, ms: number): void {
    const result = { result: verdict.kind };
    this.#deliveries.add(1, result);
    this.#items.add(batch.items.length, result);
    this.#duration.record(ms, result);
    if (batch.attempt === 1) this.#lateness.record(Math.max(0, batch.lateMs));
  }

  noteOriginFull(): void {
    this.#originFull.add(1);
  }

  noteLeaseLost(): void {
    this.#leaseLost.add(1);
  }
}

/** More links than this help nobody. */
const MOST_LINKS = 128;

/** The span of one attempt: a child of nobody, linked to the spans that pushed the items. */
export function deliverySpan(batch: Batch): Span {
  const pushers = new Set(batch.items.map(({ traceparent }) => traceparent));
  const links = [...pushers].slice(0, MOST_LINKS).flatMap((traceparent) => {
    if (traceparent === undefined) return [];
    const context = trace.getSpanContext(contextOf(traceparent));
    return context === undefined ? [] : [{ context }];
  });
  const attributes = {
    "messaging.system": "ropeway",
    "messaging.operation.type": "process",
    "messaging.batch.message_count": batch.items.length,
    "messaging.message.id": batch.id,
    "ropeway.merge.attempt": batch.attempt,
  };
  return tracerOf("merge").startSpan("process merge", {
    kind: SpanKind.CONSUMER,
    root: true,
    attributes,
    links,
  });
}
