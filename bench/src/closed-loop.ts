/**
 * Keeps a number of operations in flight until the time is over. Each response starts the next
 * operation. Without latencies the loop allocates nothing per operation (no closure, no async frame), so
 * that it measures the contender and not itself.
 */
import type { Work } from "./bench.ts";
import { percentile } from "./statistics.ts";

/** Options of a loop. */
export interface ClosedLoop<R> {
  readonly inFlight: number;
  readonly ms: number;
  /** Starts one operation. */
  issue(): Promise<R>;
  /** Checks a result. Results of one connection arrive in the order of issue. */
  isRight(result: R): boolean;
  /** Measures the time of each operation, which costs a closure and two clock readings. @default false */
  readonly latency?: boolean;
}

/** Runs the loop. Rejects with the first error of an operation. */
export function closedLoop<R>(loop: ClosedLoop<R>): Promise<Work> {
  return new Promise((resolve, reject) => {
    const latencies: number[] = [];
    let flying = 0;
    let operations = 0;
    let checked = 0;
    let over = false;
    const timer = setTimeout(() => {
      over = true;
    }, loop.ms);
    const landed = (result: R) => {
      operations++;
      if (loop.isRight(result)) checked++;
      if (!over) depart();
      else if (--flying === 0) resolve({ operations, checked, latency: latencyOf(latencies) });
    };
    const failed = (error: unknown) => {
      clearTimeout(timer);
      over = true;
      reject(error as Error);
    };
    const depart = loop.latency
      ? () => {
          const at = performance.now();
          loop.issue().then((result) => {
            latencies.push(performance.now() - at);
            landed(result);
          }, failed);
        }
      : () => void loop.issue().then(landed, failed);
    for (; flying < loop.inFlight; flying++) depart();
  });
}

/** Percentiles of times in milliseconds. Undefined if there are no times. */
export function latencyOf(ms: readonly number[]): Work["latency"] {
  if (ms.length === 0) return undefined;
  const sorted = Float64Array.from(ms).sort();
  return { p50: percentile(sorted, 50) * 1000, p99: percentile(sorted, 99) * 1000 };
}
