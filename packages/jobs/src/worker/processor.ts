/**
 * Keeps a worker's slots busy. One function, pump(), does all of it and is called whenever something changed:
 *
 *     +--> start the fetched jobs, as long as slots are free
 *     |    exchange with Redis: report ended jobs, take as many jobs as there is room for
 *     |    no job found and room left: watch, that is, block on the queues' wake keys
 *     |
 *     +--- a job ended · a reply came · a wake-up · jobs were moved · a limit allows more
 *
 * A call is made as soon as there is a reason. Jobs that end while the allowed calls are under way are reported
 * with the next call. So a single job does not wait, and under load the batches grow by themselves.
 *
 * With several queues, slots are filled in rounds: each round asks the queues one after the other, starting
 * with the first, so that a lower queue is never asked without asking those above it.
 *
 * A job that may have crashed its workers before (a suspect) runs alone. A worker that took a suspect hands
 * back all other jobs, lets its handlers end, and then takes one job at a time until the suspect has run. So a
 * suspect neither runs nor is held beside another job that might crash this worker.
 */
import { LeaseLostError } from "@ropeway/core";
import { Backoff, sleep } from "@ropeway/core/internal";
import { failureOf, MalformedJobError } from "../errors.ts";
import { tookJobs } from "../metrics.ts";
import type { WorkerOptions } from "../options.ts";
import type { Attempt } from "./attempt.ts";
import type { HandlerCaller } from "./handler.ts";
import { Prefetch } from "./prefetch.ts";
import { type Fetched, type ProcessorEvents, Runner } from "./runner.ts";
import type { Opened, Source } from "./source.ts";

/** The queues, handlers and callbacks of a processor. */
export interface ProcessorPlan {
  readonly sources: readonly Source[];
  readonly options: Required<WorkerOptions>;
  readonly caller: HandlerCaller;
  readonly events: ProcessorEvents;
  /** Reports when the next job of a queue is due. */
  hint(source: Source, dueMs: number): void;
  /** Takes over the short leases of jobs that were handed over, before they start. */
  claim(source: Source, attempts: readonly Attempt[]): void;
}

/** A job fetched ahead that did not start within this time goes back, because another worker may be free. */
const STALE_MS = 500;
/** The most jobs of one batch that one call takes. */
const MOST_TAKEN = 500;

interface Waiting extends Fetched {
  readonly at: number;
}

/** The loop described above. */
export class Processor {
  readonly #plan: ProcessorPlan;
  readonly #prefetch: Prefetch;
  readonly #capacity: number;
  readonly #backoff = new Backoff({ baseMs: 50, maxMs: 2_000 });
  readonly #buffer: Waiting[] = [];
  readonly #runner: Runner;
  readonly #settled = new Set<() => void>();
  readonly #over = new AbortController();
  #asked = 0;
  #scheduled = false;
  #callLeaves = false;
  #taking = false;
  /** Jobs fetched ahead go back as soon as no call is under way that could bring later jobs. */
  #recalling = false;
  /** stop() was called, and Redis must learn that this worker is not idle. */
  #leaving = false;
  /** Handlers became slow: nothing is fetched ahead until one has ended. */
  #slow = false;
  #inRound = false;
  /** A suspect was taken: jobs are taken one at a time, while no other job is held. */
  #cautious = false;
  #alone: Attempt | undefined;
  #stale: NodeJS.Timeout | undefined;

  constructor(plan: ProcessorPlan) {
    const { concurrency, batch, prefetch } = plan.options;
    this.#plan = plan;
    this.#capacity = concurrency * Math.max(1, batch);
    // With several queues nothing is fetched ahead: a job of a queue above may come at any time.
    this.#prefetch = new Prefetch(this.#capacity, plan.sources.length > 1 ? 0 : prefetch);
    this.#runner = new Runner(plan, (attempt) => this.#ended(attempt));
  }

  get running(): number {
    return this.#runner.running.size;
  }

  /** How many more jobs could be taken without fetching ahead. */
  get room(): number {
    if (!this.#taking || this.#recalling || this.#alone !== undefined) return 0;
    if (this.#cautious) return this.#isFree && this.#buffer.length === 0 ? 1 : 0;
    return this.#free - this.#buffer.length - this.#asked;
  }

  /** How many jobs the free slots could run. A batch occupies a whole slot, however few jobs it has. */
  get #free(): number {
    const { caller, options } = this.#plan;
    if (caller.batch === undefined) return this.#capacity - this.#runner.running.size;
    return this.#capacity - this.#runner.batches * options.batch;
  }

  start(): void {
    this.#taking = true;
    for (const source of this.#plan.sources) source.dry = false;
    this.pump();
  }

  /** Schedules a check after a change. Further changes in this tick are checked together. */
  pump(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // A call is sent only when the event loop turns, so that Redis can work on it while we continue.
    if (this.#callLeaves) setImmediate(this.#look);
    else process.nextTick(this.#look);
  }

  readonly #look = (): void => {
    this.#scheduled = false;
    this.#callLeaves = false;
    if (this.#over.signal.aborted) return;
    if (this.#recalling && this.#calls === 0) this.#handBack();
    if (this.#leaving && this.#calls === 0) {
      this.#leaving = false;
      for (const source of this.#plan.sources) void this.#call(source, 0); // it is no longer idle
    }
    this.#startFetched();
    if (this.#plan.sources.length > 1) this.#exchangeInOrder();
    else this.#exchange(this.#plan.sources[0] as Source);
    this.#watchStale();
    for (const look of this.#settled) look();
  };

  /** Starts a job that Redis handed over without a request. */
  handedOver(source: Source, job: string): void {
    const opened = source.adopt(job);
    this.#plan.claim(source, opened.attempts);
    this.#receive(source, opened);
    this.#startFetched();
    this.pump();
  }

  /** Takes no more jobs and hands back the jobs that have not started. */
  stop(): void {
    this.#taking = false;
    this.#recalling = true;
    this.#leaving = true;
    this.pump();
  }

  /** Resolves with true when nothing runs and everything was reported, or with false when `signal` aborts. */
  quiet(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const finish = (quiet: boolean) => {
        this.#settled.delete(look);
        signal.removeEventListener("abort", giveUp);
        resolve(quiet);
      };
      const giveUp = () => finish(false);
      const look = () => {
        if (this.#isFree && this.#buffer.length === 0 && !this.#leaving) finish(true);
      };
      this.#settled.add(look);
      signal.addEventListener("abort", giveUp, { once: true });
      if (signal.aborted) giveUp();
      else this.pump();
    });
  }

  /** Aborts running handlers. Nothing more is sent. */
  end(reason: unknown): void {
    this.#over.abort();
    clearTimeout(this.#stale);
    for (const attempt of this.#runner.running) attempt.abort(reason);
  }

  /** Handles a lost lease: Redis will refuse the outcome of the handler. */
  lose(source: Source, attempt: Attempt, error: LeaseLostError): void {
    if (source.held.get(attempt.id) === attempt) source.held.delete(attempt.id);
    const fetched = this.#buffer.findIndex((item) => item.attempt === attempt);
    if (fetched >= 0) this.#buffer.splice(fetched, 1);
    attempt.abort(error);
    attempt.settle({ ok: false, error });
    if (fetched >= 0) this.#plan.events.onLost(attempt.id);
    this.pump();
  }

  get #calls(): number {
    return this.#plan.sources.reduce((sum, source) => sum + source.calls, 0);
  }

  get #unreported(): number {
    return this.#plan.sources.reduce((sum, source) => sum + source.ended, 0);
  }

  /** Whether nothing runs, is on its way, or waits to be reported. */
  get #isFree(): boolean {
    return this.#runner.running.size === 0 && this.#calls === 0 && this.#unreported === 0;
  }

  /** Whether this is the last attempt before the job fails as one that crashes its workers. */
  #isSuspect({ record }: Attempt): boolean {
    const { maxStalls } = this.#plan.options;
    return maxStalls > 0 && record.stalls >= maxStalls;
  }

  #startFetched(): void {
    if (this.#recalling) return; // jobs go back: none starts, however long a call takes
    if (this.#alone !== undefined) {
      this.#handBack();
      return;
    }
    if (this.#cautious) {
      this.#startOne();
      return;
    }
    const { caller, options } = this.#plan;
    for (let next = this.#buffer[0]; next !== undefined; next = this.#buffer[0]) {
      if (this.#recalling) return; // a handler that has just run put the queue on hold
      if (caller.batch === undefined) {
        if (this.#runner.running.size >= this.#capacity) return;
        this.#buffer.shift();
        this.#runner.start(next);
      } else {
        if (this.#runner.batches >= options.concurrency) return;
        this.#runner.startBatch(this.#buffer.splice(0, options.batch));
      }
    }
  }

  /** Starts the only held job. If there are more, all go back. */
  #startOne(): void {
    const [next] = this.#buffer;
    if (next === undefined) return;
    if (this.#buffer.length > 1 || !this.#isFree) {
      this.#handBack();
      return;
    }
    this.#buffer.shift();
    this.#cautious = false;
    if (this.#isSuspect(next.attempt)) this.#alone = next.attempt;
    if (this.#plan.caller.batch === undefined) this.#runner.start(next);
    else this.#runner.startBatch([next]);
  }

  #ended(attempt: Attempt): void {
    if (this.#alone === attempt) this.#alone = undefined;
    if (attempt.limited) this.#recalling = true; // jobs fetched ahead must not run while the queue is on hold
    this.#slow = false;
    if (attempt.startedAt > 0) this.#prefetch.handled(attempt.tookMs);
    this.pump();
  }

  /** The exchange of a worker that has one queue. */
  #exchange(source: Source): void {
    const ahead = this.#slow ? 0 : this.#prefetch.ahead;
    const free = this.room;
    const room = this.#accepting ? Math.max(0, free + ahead) : free;
    const wants = !source.dry && room > 0;
    if (source.calls < (source.unsure ? 1 : 2) && (wants || source.ended > 0)) {
      // Half of the room at a time: while one half runs, the other is fetched. Not for batches,
      // which should be as full as possible.
      const halves = this.#plan.caller.batch === undefined ? 2 : 1;
      const share = Math.max(1, Math.ceil((this.#capacity + ahead) / halves));
      void this.#call(source, Math.min(room, share, this.#perCall));
    }
    if (source.dry && source.calls === 0 && free > 0) this.#plan.events.onIdle();
  }

  /** The most jobs that one call takes. A batch is taken by one call, so that it is full unless its jobs are large. */
  get #perCall(): number {
    return Math.max(this.#prefetch.perCall, Math.min(this.#plan.options.batch, MOST_TAKEN));
  }

  get #accepting(): boolean {
    return this.#taking && !this.#recalling && !this.#cautious && this.#alone === undefined;
  }

  /** The exchange of a worker that has several queues. */
  #exchangeInOrder(): void {
    const { sources, events } = this.#plan;
    if (this.#inRound) return;
    if (this.room > 0 && sources.some((source) => !source.dry)) {
      void this.#askInOrder();
      return;
    }
    for (const source of sources) {
      if (source.ended > 0 && source.calls === 0) void this.#call(source, 0);
    }
    if (this.room > 0 && this.#calls === 0) events.onIdle();
  }

  async #askInOrder(): Promise<void> {
    this.#inRound = true;
    let taking = true;
    for (const source of this.#plan.sources) {
      const want = taking ? Math.min(Math.max(0, this.room), this.#perCall) : 0;
      if (want === 0 && source.ended === 0) continue;
      const hasMore = await this.#call(source, want);
      if (want > 0 && hasMore && this.room > 0) taking = false; // lower queues wait for the next round
    }
    this.#inRound = false;
    this.pump();
  }

  /** Returns whether the queue may have more jobs for this worker; false if the call failed. */
  async #call(source: Source, want: number): Promise<boolean> {
    source.calls += 1;
    this.#asked += want;
    this.#callLeaves = true;
    const sentAt = performance.now();
    const cautious = this.#cautious;
    try {
      const { taken, lost } = await source.exchange(want);
      this.#backoff.reset();
      this.#prefetch.trip(performance.now() - sentAt);
      this.#receive(source, source.open(taken, sentAt));
      const count = taken.jobs.length / 2;
      if (count > 0) this.#measure(source, taken.jobs);
      if (want > 0) source.dry = count < want && taken.laterMs !== 0;
      if (cautious && want > 0 && count === 0) this.#cautious = false; // another worker has it
      if (want > 0 && taken.laterMs > 0) source.restFor(taken.laterMs, () => this.pump());
      for (const id of lost) this.#plan.events.onLost(id);
      this.#plan.hint(source, taken.dueMs);
      return !source.dry;
    } catch (error) {
      if (this.#over.signal.aborted) return false;
      this.#plan.events.onError(error);
      await sleep(this.#backoff.next(), this.#over.signal).catch(() => {}); // ended: no more calls
      return false;
    } finally {
      source.calls -= 1;
      this.#asked -= want;
      this.pump();
    }
  }

  #measure(source: Source, jobs: readonly string[]): void {
    tookJobs(source.store.name, jobs.length / 2);
    let bytes = 0;
    for (let i = 1; i < jobs.length; i += 2) bytes += (jobs[i] as string).length;
    this.#prefetch.received(bytes, jobs.length / 2);
  }

  #receive(source: Source, opened: Opened): void {
    const at = performance.now();
    for (const attempt of opened.displaced) {
      this.lose(source, attempt, new LeaseLostError(`job ${attempt.id}`, attempt.fence));
    }
    for (const attempt of opened.attempts) {
      this.#buffer.push({ source, attempt, at });
      this.#cautious ||= this.#isSuspect(attempt);
    }
    for (const item of opened.unreadable) {
      const error = new MalformedJobError(item.id, "its record has another form");
      this.#plan.events.onError(error);
      source.undone(item, "dead", { json: JSON.stringify(failureOf(error)) });
    }
    if (!this.#taking) this.#recalling = true; // after all jobs on their way, in order
  }

  #handBack(): void {
    this.#recalling = false;
    for (const { source, attempt } of this.#buffer.splice(0)) source.undone(attempt, "back");
  }

  /** While jobs are fetched ahead, makes sure that they do not wait here for long. */
  #watchStale(): void {
    if (this.#buffer.length === 0) {
      clearTimeout(this.#stale);
      this.#stale = undefined;
      return;
    }
    this.#stale ??= setTimeout(() => {
      this.#stale = undefined;
      const oldest = this.#buffer[0];
      if (oldest !== undefined && performance.now() - oldest.at >= STALE_MS) {
        // A call under way brings later jobs: all go back together, in their order.
        this.#slow = true;
        this.#recalling = !this.#cautious;
      }
      this.pump();
    }, STALE_MS);
  }
}
