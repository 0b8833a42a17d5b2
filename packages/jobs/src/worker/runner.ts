/** Runs handlers and turns their outcomes into reports for Redis. */
import { LeaseLostError } from "@ropeway/core";
import {
  failureOf,
  JobStalledError,
  MalformedJobError,
  RateLimitedError,
  readable,
} from "../errors.ts";
import { endedJob } from "../metrics.ts";
import type { WorkerOptions } from "../options.ts";
import { encodeData } from "../record.ts";
import { type Attempt, PutBack, type Settlement } from "./attempt.ts";
import type { HandlerCaller } from "./handler.ts";
import type { Source } from "./source.ts";
import { verdictOf } from "./verdict.ts";

/** What a processor reports to its worker. Outcomes are reported after Redis has confirmed them. */
export interface ProcessorEvents {
  onActive(attempt: Attempt): void;
  onCompleted(attempt: Attempt, result: unknown): void;
  onFailed(attempt: Attempt, error: unknown, final: boolean): void;
  onLost(id: string): void;
  onError(error: unknown): void;
  /** Slots are free and the queues are empty. */
  onIdle(): void;
}

/** A taken job, and its source. */
export interface Fetched {
  readonly source: Source;
  readonly attempt: Attempt;
}

/** The options of a runner. */
export interface RunnerPlan {
  readonly options: Required<WorkerOptions>;
  readonly caller: HandlerCaller;
  readonly events: ProcessorEvents;
}

/** The running handlers. */
export class Runner {
  readonly running: Set<Attempt> = new Set();
  /** Running batches. Each ends with the last of its jobs, even if its handler never returns. */
  batches = 0;
  readonly #batchOf = new WeakMap<Attempt, { left: number }>();
  readonly #plan: RunnerPlan;
  readonly #caller: HandlerCaller;
  readonly #onEnded: (attempt: Attempt) => void;

  constructor(plan: RunnerPlan, onEnded: (attempt: Attempt) => void) {
    this.#plan = plan;
    this.#caller = plan.caller;
    this.#onEnded = onEnded;
  }

  /** Runs one job. */
  start({ source, attempt }: Fetched): void {
    if (!this.#begin(source, attempt)) return;
    const fail = (error: unknown) => attempt.settle({ ok: false, error });
    try {
      const result = this.#caller.call(attempt);
      if (!isPromise(result)) attempt.settle({ ok: true, value: result });
      else result.then((value) => attempt.settle({ ok: true, value }), fail);
    } catch (error) {
      fail(error); // also for a `then` that throws
    }
  }

  /** Runs several jobs with one call of the batch handler. */
  startBatch(fetched: readonly Fetched[]): void {
    const attempts = fetched
      .filter(({ source, attempt }) => this.#begin(source, attempt))
      .map(({ attempt }) => attempt);
    if (attempts.length === 0) return;
    this.batches += 1;
    const batch = { left: attempts.length };
    for (const attempt of attempts) this.#batchOf.set(attempt, batch);
    const end = (settlementOf: (index: number) => Settlement) => {
      for (const [i, attempt] of attempts.entries()) attempt.settle(settlementOf(i));
    };
    this.#caller.callBatch(attempts).then(
      (results) => end((i) => ({ ok: true, value: results[i] })),
      (error) => end(() => ({ ok: false, error })),
    );
  }

  /** Marks the attempt as running; false if it must not run. */
  #begin(source: Source, attempt: Attempt): boolean {
    const { events, options } = this.#plan;
    if (performance.now() > attempt.safeUntil) {
      // The event loop was blocked so long that another worker may have the job. It was never started here.
      source.held.delete(attempt.id);
      events.onLost(attempt.id);
      this.#onEnded(attempt);
      return false;
    }
    this.running.add(attempt);
    attempt.begin((settlement) => this.#ended(source, attempt, settlement));
    if (attempt.cancelled) {
      attempt.settle({ ok: false, error: attempt.signal.reason }); // cancelled before it could start
      return false;
    }
    if (attempt.record.stalls > options.maxStalls) {
      attempt.settle({ ok: false, error: new JobStalledError(attempt.id, attempt.record.stalls) });
      return false;
    }
    try {
      attempt.data; // decoded now: a handler must not get data that is not JSON
    } catch (error) {
      const malformed = new MalformedJobError(attempt.id, String(error));
      attempt.settle({ ok: false, error: malformed });
      return false;
    }
    events.onActive(attempt);
    return true;
  }

  #ended(source: Source, attempt: Attempt, settlement: Settlement): void {
    this.running.delete(attempt);
    const batch = this.#batchOf.get(attempt);
    if (batch !== undefined) {
      batch.left -= 1;
      if (batch.left === 0) this.batches -= 1;
    }
    if (settlement.ok) this.#done(source, attempt, settlement.value);
    else this.#undone(source, attempt, readable(settlement.error));
    this.#onEnded(attempt);
  }

  #done(source: Source, attempt: Attempt, value: unknown): void {
    let json: string;
    try {
      json = encodeData(value, attempt.name);
    } catch (error) {
      this.#undone(source, attempt, error); // a result that has no JSON form
      return;
    }
    source.done(attempt, json, () => {
      endedJob(source.store.name, "completed", attempt.tookMs);
      this.#plan.events.onCompleted(attempt, value);
    });
  }

  #undone(source: Source, attempt: Attempt, error: unknown): void {
    const { events, options } = this.#plan;
    const queue = source.store.name;
    if (error instanceof LeaseLostError && source.held.get(attempt.id) !== attempt) {
      endedJob(queue, "lost", attempt.tookMs);
      events.onLost(attempt.id);
      return;
    }
    if (error instanceof PutBack && attempt.cancelled) {
      this.#undone(source, attempt, attempt.signal.reason); // a cancelled job does not run again
      return;
    }
    if (error instanceof PutBack) {
      source.undone(attempt, error.verdict);
      return;
    }
    const backoffs = { functions: options.backoffs, onError: events.onError };
    const verdict = verdictOf(attempt, error, backoffs);
    const final = verdict === "dead";
    attempt.limited = error instanceof RateLimitedError;
    const onConfirmed = () => {
      endedJob(queue, final ? "failed" : "retried", attempt.tookMs);
      events.onFailed(attempt, error, final);
    };
    source.undone(attempt, verdict, { json: JSON.stringify(failureOf(error)), onConfirmed });
  }
}

function isPromise(value: unknown): value is Promise<unknown> {
  return typeof (value as { then?: unknown } | undefined | null)?.then === "function";
}
