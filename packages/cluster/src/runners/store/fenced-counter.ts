/** What the scripted runner writes to its target: a counter behind a fence. */
import { defineScript, LeaseLostError, type Redis, type Script } from "@ropeway/core";

const fencedCount: Script<number> = defineScript(
  new URL("../../../lua/fenced-count.lua", import.meta.url),
  { parse: Number },
);
const KEPT = 100_000;

/** A counter that only the run with the highest epoch can move. */
export class FencedCounter {
  readonly #redis: Redis;
  readonly #keys: readonly string[];
  readonly #epoch: number;

  constructor(redis: Redis, taskId: string, epoch: number) {
    this.#redis = redis;
    this.#keys = ["fence", "count", "epochs"].map((name) => `ropeway:scripted:{${taskId}}:${name}`);
    this.#epoch = epoch;
  }

  /** Takes the fence; throws LeaseLostError if a later run has it. */
  raise(): Promise<number> {
    return this.#run("raise");
  }

  /** Counts one; throws LeaseLostError if a later run has the fence. */
  step(): Promise<number> {
    return this.#run("step");
  }

  async #run(verb: "raise" | "step"): Promise<number> {
    const count = await this.#redis.run(fencedCount, this.#keys, [this.#epoch, verb, KEPT]);
    if (count < 0) throw new LeaseLostError("the target", this.#epoch);
    return count;
  }
}
