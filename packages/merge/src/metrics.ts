/**
 * The metrics of the package. docs/reference/metrics.md lists their names and meanings, and a test compares the two.
 * Merge keys and URLs never become attributes, because their number is unbounded.
 */
import { type Counter, type Histogram, type Span, SpanKind, trace } from "@opentelemetry/api";
import { contextOf, meterOf, tracerOf } from "@ropeway/core/internal";
import type { Verdict } from "./delivery/verdict.ts";
import type { Batch } from "./queue/queue.ts";

/** Every instrument of the package. */
export const INSTRUMENTS = {
  deliveries: ["ropeway.merge.deliveries", "Attempts to deliver a batch, by result"],
  items: ["ropeway.merge.items", "Items in these batches, by result"],
  bytes: ["ropeway.merge.bytes", "Bytes of the bodies in these batches, by result"],
  retries: ["ropeway.merge.retries", "Attempts that were not the first of their batch"],
  batchSize: ["ropeway.merge.batch.items", "Items per batch"],
  lateness: ["ropeway.merge.lateness", "How long a batch had been due when it was taken, ms"],
  duration: ["ropeway.merge.delivery.duration", "From taking a batch to its verdict, ms"],
  originFull: ["ropeway.merge.origin.full", "Due keys that found all slots of their origin taken"],
  leaseLost: ["ropeway.merge.lease.lost", "Verdicts that came after the lease"],
} as const;

/** The instruments. A dispatcher creates them: by then the application has installed its SDK. */
export class DeliveryMetrics {
  readonly #deliveries: Counter;
  readonly #items: Counter;
  readonly #bytes: Counter;
  readonly #retries: Counter;
  readonly #batchSize: Histogram;
  readonly #lateness: Histogram;
  readonly #duration: Histogram;
  readonly #originFull: Counter;
  readonly #leaseLost: Counter;

  constructor() {
    const meter = meterOf("merge");
    const counter = ([name, description]: readonly [string, string]) =>
      meter.createCounter(name, { description });
    const histogram = ([name, description]: readonly [string, string], unit: string) =>
      meter.createHistogram(name, { description, unit });
    this.#deliveries = counter(INSTRUMENTS.deliveries);
    this.#items = counter(INSTRUMENTS.items);
    this.#bytes = counter(INSTRUMENTS.bytes);
    this.#retries = counter(INSTRUMENTS.retries);
    this.#batchSize = histogram(INSTRUMENTS.batchSize, "{item}");
    this.#lateness = histogram(INSTRUMENTS.lateness, "ms");
    this.#duration = histogram(INSTRUMENTS.duration, "ms");
    this.#originFull = counter(INSTRUMENTS.originFull);
    this.#leaseLost = counter(INSTRUMENTS.leaseLost);
  }

  noteDelivery(batch: Batch, verdict: Verdict, ms: number): void {
    const result = { result: verdict.kind };
    this.#deliveries.add(1, result);
    this.#items.add(batch.items.length, result);
    this.#bytes.add(bytesOf(batch), result);
    this.#duration.record(ms, result);
    if (batch.attempt > 1) {
      if (verdict.kind !== "hold") this.#retries.add(1);
      return;
    }
    this.#batchSize.record(batch.items.length);
    this.#lateness.record(Math.max(0, batch.lateMs));
  }

  noteOriginFull(): void {
    this.#originFull.add(1);
  }

  noteLeaseLost(): void {
    this.#leaseLost.add(1);
  }
}

function bytesOf({ items }: Batch): number {
  let sum = 0;
  for (const { body } of items) sum += body.length;
  return sum;
}

/** The maximum number of links on a span. */
const MOST_LINKS = 128;

/** The span of one attempt: a root span, linked to the spans of the pushes. */
export function deliverySpan(batch: Batch): Span {
  const pushers = new Set<string>();
  for (const { traceparent } of batch.items) {
    if (traceparent !== undefined && pushers.size < MOST_LINKS) pushers.add(traceparent);
  }
  const links = [...pushers].flatMap((traceparent) => {
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
