/**
 * Gathers the adds of one tick into one script call. A single add is sent at the end of the current tick,
 * without waiting. Under load, jobs that are added while MAX_CALLS calls are under way wait for the first
 * reply and are then sent together. A large batch is sent in two halves, the second once the first is
 * on its way. Redis then works on one half while the program prepares the other. Nothing overtakes a batch with
 * jobs that replace others: add.lua can leave the rest of it for another call.
 */
import { setImmediate as immediate } from "node:timers/promises";
import { ServerReplyError, WrongKeyTypeError } from "@ropeway/core";
import { type Deferred, deferred } from "@ropeway/core/internal";
import type { NewJob, NotAdded } from "../store/queue-store.ts";
import type { Producer } from "./producer.ts";

const MAX_CALLS = 2;
/** Smaller batches are not split. */
const HALVED_FROM = 16;
const MAX_JOBS = 500;
const MAX_BYTES = 1 << 20;

interface Waiting {
  readonly job: NewJob;
  readonly outcome: Deferred<NotAdded | undefined>;
}

/** Adds jobs to a queue. */
export class Adder {
  readonly #producer: Producer;
  #waiting: Waiting[] = [];
  #calls = 0;
  #scheduled = false;
  /** A batch that must not be overtaken is under way. */
  #alone = false;
  #idle: Deferred<void> | undefined;

  constructor(producer: Producer) {
    this.#producer = producer;
  }

  /** Resolves when the job is in Redis. If it was not added, resolves with the existing job. */
  add(job: NewJob): Promise<NotAdded | undefined> {
    const outcome = deferred<NotAdded | undefined>();
    this.#waiting.push({ job, outcome });
    this.#schedule();
    return outcome.promise;
  }

  /** Adds many at once, in chunks that a server handles in a few milliseconds. Two chunks are under way at a time. */
  async addMany(jobs: readonly NewJob[]): Promise<ReadonlyMap<number, NotAdded>> {
    const other = new Map<number, NotAdded>();
    const calls: Promise<void>[] = [];
    for (let first = 0; first < jobs.length; ) {
      const start = first;
      first = chunkEnd(jobs, first);
      const chunk = jobs.slice(start, first);
      const call = this.#producer.add(chunk).then((notAdded) => {
        release(chunk);
        for (const [index, outcome] of notAdded) other.set(start + index, outcome);
      });
      call.catch(() => {}); // reported below, in order
      calls.push(call);
      if (replaces(chunk)) await Promise.all(calls.splice(0));
      else if (calls.length >= MAX_CALLS)
        await calls.shift(); // bounded memory
      else if (first < jobs.length) await immediate();
    }
    await Promise.all(calls);
    return other;
  }

  /** Resolves when every add() has an outcome. */
  async settled(): Promise<void> {
    if (this.#calls === 0 && this.#waiting.length === 0) return;
    this.#idle ??= deferred();
    await this.#idle.promise;
  }

  #schedule(): void {
    if (this.#scheduled || !this.#mayCall) return;
    this.#scheduled = true;
    // After all microtasks: other code that reacts to the same reply adds its job first.
    process.nextTick(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  get #mayCall(): boolean {
    return this.#calls < MAX_CALLS && !this.#alone;
  }

  #flush(): void {
    if (this.#waiting.length === 0 || !this.#mayCall) return;
    const halved = this.#calls === 0 && this.#waiting.length >= HALVED_FROM;
    const most = halved ? Math.ceil(this.#waiting.length / 2) : this.#waiting.length;
    const jobs = this.#waiting.slice(0, most).map(({ job }) => job);
    const end = chunkEnd(jobs, 0);
    const batch = this.#waiting.splice(0, end);
    const sent = end === most ? jobs : jobs.slice(0, end);
    this.#calls += 1;
    this.#alone = replaces(sent);
    this.#producer.add(sent).then(
      (other) => {
        release(sent);
        this.#answered(batch, (w, i) => w.outcome.resolve(other.get(i)));
      },
      (error) => this.#refused(batch, error),
    );
    // In the next turn of the loop: two calls in one write would also get their replies together.
    if (this.#waiting.length > 0) setImmediate(() => this.#flush());
  }

  /** The server refused a batch: each job is sent alone, so that a bad job cannot reject the others. */
  #refused(batch: readonly Waiting[], error: unknown): void {
    const refused = error instanceof ServerReplyError || error instanceof WrongKeyTypeError;
    if (!refused || batch.length === 1) {
      this.#answered(batch, (w) => w.outcome.reject(error));
      return;
    }
    const alone = batch.map(({ job, outcome }) =>
      this.#producer.add([job]).then((other) => outcome.resolve(other.get(0)), outcome.reject),
    );
    void Promise.all(alone).then(() => this.#answered([], () => {}));
  }

  #answered(batch: readonly Waiting[], settle: (waiting: Waiting, index: number) => void): void {
    this.#calls -= 1;
    if (this.#calls === 0) this.#alone = false;
    batch.forEach(settle);
    if (this.#waiting.length > 0) this.#schedule();
    else if (this.#calls === 0) {
      this.#idle?.resolve();
      this.#idle = undefined;
    }
  }
}

/**
 * Releases the records that Redis has. Measured with 100,000 jobs of 2 KB: without this, V8 moved 203 MB of
 * them to its old space, with it 17 MB. Each move copies the record.
 */
function release(jobs: readonly NewJob[]): void {
  for (const job of jobs) job.record = "";
}

/** Whether a job may replace another. `where` can also contain the word for another reason, which is harmless. */
function replaces(jobs: readonly NewJob[]): boolean {
  return jobs.some(({ where }) => where.includes('"replace"'));
}

/** The end of the chunk that begins at `start`. */
function chunkEnd(jobs: readonly NewJob[], start: number): number {
  let bytes = 0;
  let end = start;
  while (end < jobs.length && end - start < MAX_JOBS && bytes < MAX_BYTES) {
    bytes += (jobs[end] as NewJob).record.length;
    end += 1;
  }
  return end;
}
