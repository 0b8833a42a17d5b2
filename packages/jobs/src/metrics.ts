/**
 * Metrics of this process, through OpenTelemetry. Without an SDK in the application they do nothing.
 * docs/reference/metrics.md lists them, and a test compares the two.
 */
import type { Counter, Histogram } from "@opentelemetry/api";
import { meterOf } from "@ropeway/core/internal";

/** Name, type, attributes and meaning of every metric. */
export const METRICS: readonly (readonly [string, string, readonly string[], string])[] = [
  ["ropeway.jobs.added", "counter", ["queue"], "Jobs given to add()"],
  ["ropeway.jobs.ended", "counter", ["queue", "outcome"], "Attempts that ended"],
  ["ropeway.jobs.duration", "histogram", ["queue", "outcome"], "How long handlers took, ms"],
  ["ropeway.jobs.batch", "histogram", ["queue"], "Jobs taken per round trip"],
];

export type Outcome = "completed" | "retried" | "failed" | "lost";

interface Instruments {
  readonly added: Counter;
  readonly ended: Counter;
  readonly duration: Histogram;
  readonly batch: Histogram;
}

let instruments: Instruments | undefined;

/** Made on first use, so that an SDK installed after our import is found. */
function all(): Instruments {
  if (instruments !== undefined) return instruments;
  const meter = meterOf("jobs");
  instruments = {
    added: meter.createCounter("ropeway.jobs.added"),
    ended: meter.createCounter("ropeway.jobs.ended"),
    duration: meter.createHistogram("ropeway.jobs.duration", { unit: "ms" }),
    batch: meter.createHistogram("ropeway.jobs.batch"),
  };
  return instruments;
}

/** Counts jobs added to Redis. */
export function addedJobs(queue: string, count: number): void {
  all().added.add(count, { queue });
}

/** Counts one ended attempt. */
export function endedJob(queue: string, outcome: Outcome, tookMs: number): void {
  const attributes = { queue, outcome };
  all().ended.add(1, attributes);
  all().duration.record(tookMs, attributes);
}

/** Counts the jobs of one round trip. */
export function tookJobs(queue: string, count: number): void {
  all().batch.record(count, { queue });
}
