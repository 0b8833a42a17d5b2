/**
 * Many contenders that repeatedly acquire, hold and release one lock.
 *
 *   |-- ramp: all of them queue --|-- measured: `ms` --|-- the rest get the lock and leave at once --|
 *
 * The ramp and the end are not measured, because waits are shorter there: at first no contender has
 * waited for long, and at the end fewer contenders wait. At the end the lock is not held, because a full
 * hold by every contender would make a slice several times longer than its measured part.
 */
import type { Work } from "../../bench.ts";
import { latencyOf } from "../../closed-loop.ts";
import type { Locker } from "./lockers.ts";

/** Options of `contend`. */
export interface Contention {
  /** The connections to the lock, shared equally by the contenders. */
  readonly lockers: readonly Locker[];
  readonly contenders: number;
  readonly holdMs: number;
  readonly rampMs: number;
  readonly ms: number;
  /** The reported time: from the request to the acquisition, or from the release to the next acquisition. */
  readonly latency: "wait" | "handover";
  /** The number of commands sent so far, in scenarios about commands. */
  readonly sent?: () => Promise<number>;
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Runs the contenders. Rejects with the first error. Results with two holders do not count as checked. */
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
