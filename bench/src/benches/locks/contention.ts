/**
 * Many contenders that acquire, hold and release one lock over and over.
 *
 *   |-- ramp: all of them queue --|-- measured: `ms` --|-- the rest get the lock and leave at once --|
 *
 * Neither end belongs to the measurement: at first nobody has waited for long, and at last fewer and
 * fewer wait. Holding the lock for its full time until everybody had it once more would also make a slice
 * several times longer than what it measures.
 */
import type { Work } from "../../bench.ts";
import { latencyOf } from "../../closed-loop.ts";
import type { Locker } from "./lockers.ts";

/** What to do with a lock. */
export interface Contention {
  /** Connections to the lock; contenders are spread over them. */
  readonly lockers: readonly Locker[];
  readonly contenders: number;
  readonly holdMs: number;
  readonly rampMs: number;
  readonly ms: number;
  /** Which time is reported: from asking to having the lock, or from its release to the next holder. */
  readonly latency: "wait" | "handover";
  /** Counts the commands that were sent until now, where that is the question. */
  readonly sent?: () => Promise<number>;
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Runs the contenders; rejects with the first error, or if two of them hold the lock at once. */
export async function contend(contention: Contention): Promise<Work> {
  const { lockers, contenders, holdMs, rampMs, ms, latency, sent } = contention;
  const latencies: number[] = [];
  let measuring = false;
  let over = false;
  let operations = 0;
  let checked = 0;
  let holders = 0;
  let releasedAt: number | undefined;

  async function contender(locker: Locker): Promise<void> {
    while (!over) {
      const askedAt = performance.now();
      const release = await locker.acquire();
      const gotAt = performance.now();
      const measured = measuring;
      const since = latency === "wait" ? askedAt : releasedAt;
      if (measured && since !== undefined) latencies.push(gotAt - since);
      const alone = ++holders === 1;
      if (!over) await sleep(holdMs);
      holders--;
      releasedAt = performance.now();
      const released = await release();
      if (!measured) continue;
      operations++;
      if (alone && released) checked++;
    }
  }

  const all = Array.from({ length: contenders }, (_, i) =>
    contender(lockers[i % lockers.length] as Locker),
  );
  const failed = Promise.all(all).then(() => {}); // rejects as soon as one of them does
  const measure = async () => {
    await sleep(rampMs);
    const before = (await sent?.()) ?? 0;
    const startedAt = performance.now();
    measuring = true;
    await sleep(ms);
    const elapsedMs = performance.now() - startedAt;
    measuring = false;
    over = true;
    const commands = sent && (await sent()) - before;
    return { elapsedMs, ...(commands === undefined ? {} : { sent: commands }) };
  };
  const [measured] = await Promise.all([measure(), failed]);
  return { operations, checked, latency: latencyOf(latencies), ...measured };
}
