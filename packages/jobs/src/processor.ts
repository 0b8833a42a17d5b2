/**
 * Keeps a worker's slots busy. All of it is one function, pump(), called whenever something changed:
 *
 *     +--> start what was fetched, as long as slots are free
 *     |    exchange with Redis: tell what has ended, take what there is room for
 *     |    nothing to be had and room left: watch, that is, block on the queues' wake keys
 *     |
 *     +--- a job ended · an answer came · a wake-up · jobs were moved · a limit allows more
 *
 * A call is made as soon as there is a reason; what ends while the allowed calls are under way goes with
 * the next one. So a lone job costs no waiting, and under load the batches grow by themselves.
 */
import { context, SpanKind, trace } from "@opentelemetry/api";
import { Backoff, contextOf, inSpan, sleep, tracerOf } from "@ropeway/core/internal";
import type { Attempt, JobContext, Settlement } from "./attempt.ts";
import {
  failureOf,
  JobStalledError,
  LeaseLostError,
  MalformedJobError,
  NoHandlerError,
} from "./errors.ts";
import type { Lane } from "./lane.ts";
import { endedJob, type Outcome, tookJobs } from "./metrics.ts";
import type { WorkerOptions } from "./options.ts";
import { Pace } from "./pace.ts";
import { encodeData } from "./record.ts";
import { verdictOf } from "./verdict.ts";

/** Does the work of one job; what it returns is the job's result. */
export type Handler<Data = never> = (job: JobContext<Data>) => unknown;

/** Does the work of several jobs; may return an array with a result for each. */
export type BatchHandler<Data = never> = (jobs: readonly JobContext<Data>[]) => unknown;

/** What a processor tells its worker. */
export interface ProcessorEvents {
  onActive(attempt: Attempt): void;
  onCompleted(attempt: Attempt, result: unknown): void;
  onFailed(attempt: Attempt, error: unknown, final: boolean): void;
  onLost(id: string): void;
  onError(error: unknown): void;
  /** Slots are free and the lanes are dry. */
  onIdle(): void;
}

/** What a processor runs. */
export interface ProcessorPlan {
  readonly lanes: readonly Lane[];
  readonly options: Required<WorkerOptions>;
  handlerOf(name: string): Handler<unknown> | undefined;
  readonly batchHandler: BatchHandler<unknown> | undefined;
  readonly events: ProcessorEvents;
  /** A lane's answer said that something is due in so many ms. */
  hint(lane: Lane, dueMs: number): void;
}

const MOST_TAKEN = 500;
/** A job fetched ahead that did not start within this time goes back: others may be free. */
const STALE_MS = 500;

interface Fetched {
  readonly lane: Lane;
  readonly attempt: Attempt;
  readonly at: number;
}

/** See above. */
export class Processor {
  readonly #plan: ProcessorPlan;
  readonly #pace: Pace;
  readonly #capacity: number;
  readonly #callsPerLane: number;
  readonly #backoff = new Backoff({ baseMs: 50, maxMs: 2_000 });
  readonly #buffer: Fetched[] = [];
  readonly #tracer = tracerOf("jobs");
  readonly #running = new Set<Attempt>();
  readonly #settled = new Set<() => void>();
  #batches = 0;
  #asked = 0;
  #scheduled = false;
  #callLeaves = false;
  #taking = false;
  readonly #over = new AbortController();
  #stale: NodeJS.Timeout | undefined;

  constructor(plan: ProcessorPlan) {
    const { concurrency, batch, prefetch } = plan.options;
    this.#plan = plan;
    this.#capacity = concurrency * Math.max(1, batch);
    // Only the first queue's jobs may be fetched ahead of need: order between queues comes first.
    this.#pace = new Pace(this.#capacity, plan.lanes.length > 1 ? 0 : prefetch);
    this.#callsPerLane = plan.lanes.length > 1 ? 1 : 2;
  }

  get running(): number {
    return this.#running.size;
  }

  /** How many more jobs could be taken without fetching ahead. */
  get room(): number {
    return this.#capacity - this.#running.size - this.#buffer.length - this.#asked;
  }

  start(): void {
    this.#taking = true;
    this.pump();
  }

  /** Something changed; what follows in this tick is looked at together. */
  pump(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // After a call the loop has to turn once for it to leave: Redis is to work on it while we go on.
    if (this.#callLeaves) setImmediate(this.#look);
    else process.nextTick(this.#look);
  }

  readonly #look = (): void => {
    this.#scheduled = false;
    this.#callLeaves = false;
    if (this.#over.signal.aborted) return;
    this.#startFetched();
    this.#exchange();
    this.#watchStale();
    for (const look of this.#settled) look();
  };

  /** A job came without being asked for: it starts at once. */
  handedOver(lane: Lane, job: string): void {
    this.#receive(lane, lane.adopt(job));
    this.#startFetched();
    this.pump();
  }

  /** Takes nothing more and hands back what has not started. */
  stop(): void {
    this.#taking = false;
    this.#handBack();
    this.pump();
  }

  /** Resolves when nothing runs and everything was told; or, with false, when `signal` aborts. */
  quiet(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const finish = (quiet: boolean) => {
        this.#settled.delete(look);
        signal.removeEventListener("abort", giveUp);
        resolve(quiet);
      };
      const giveUp = () => finish(false);
      const look = () => {
        const busy = this.#plan.lanes.some((lane) => lane.calls > 0 || lane.ended > 0);
        if (!busy && this.#running.size === 0) finish(true);
      };
      this.#settled.add(look);
      signal.addEventListener("abort", giveUp, { once: true });
      if (signal.aborted) giveUp();
      else this.pump();
    });
  }

  /** The end: handlers that still run are told to stop, and nothing is sent any more. */
  end(reason: unknown): void {
    this.#over.abort();
    clearTimeout(this.#stale);
    for (const attempt of this.#running) attempt.abort(reason);
  }

  /** The lease is gone: whatever the handler does now counts for nothing. */
  lose(lane: Lane, attempt: Attempt, error: LeaseLostError): void {
    lane.held.delete(attempt.id);
    const fetched = this.#buffer.findIndex((item) => item.attempt === attempt);
    if (fetched >= 0) this.#buffer.splice(fetched, 1);
    attempt.abort(error);
    attempt.settle({ ok: false, error });
    if (fetched >= 0) this.#plan.events.onLost(attempt.id);
    this.pump();
  }

  #startFetched(): void {
    if (this.#plan.batchHandler !== undefined) {
      const { concurrency, batch } = this.#plan.options;
      while (this.#buffer.length > 0 && this.#batches < concurrency) {
        this.#startBatch(this.#buffer.splice(0, batch));
      }
      return;
    }
    let next = 0;
    while (next < this.#buffer.length && this.#running.size < this.#capacity) {
      this.#start(this.#buffer[next++] as Fetched);
    }
    if (next > 0) this.#buffer.splice(0, next);
  }

  #start({ lane, attempt }: Fetched): void {
    if (!this.#begin(lane, attempt)) return;
    let result: unknown;
    try {
      result = this.#handle(attempt);
    } catch (error) {
      attempt.settle({ ok: false, error });
      return;
    }
    if (!isPromise(result)) attempt.settle({ ok: true, value: result });
    else {
      result.then(
        (value) => attempt.settle({ ok: true, value }),
        (error) => attempt.settle({ ok: false, error }),
      );
    }
  }

  #handle(attempt: Attempt): unknown {
    const handler = this.#plan.handlerOf(attempt.name);
    if (handler === undefined) throw new NoHandlerError(attempt.id, attempt.name);
    const traceparent = attempt.record.options.x;
    if (traceparent === undefined) return handler(attempt);
    const parent = contextOf(traceparent);
    const attributes = {
      "messaging.system": "ropeway",
      "messaging.destination.name": attempt.queue,
    };
    const span = this.#tracer.startSpan(
      `process ${attempt.queue}`,
      { kind: SpanKind.CONSUMER, attributes },
      parent,
    );
    return context.with(trace.setSpan(parent, span), () =>
      inSpan(span, async () => handler(attempt)),
    );
  }

  #startBatch(fetched: readonly Fetched[]): void {
    const attempts = fetched
      .filter(({ lane, attempt }) => this.#begin(lane, attempt))
      .map((f) => f.attempt);
    if (attempts.length === 0) return;
    this.#batches += 1;
    const end = (settle: (attempt: Attempt, index: number) => void) => {
      this.#batches -= 1;
      attempts.forEach(settle);
      this.pump();
    };
    const work = async () => this.#plan.batchHandler?.(attempts);
    work().then(
      (results) =>
        end((attempt, i) => {
          attempt.settle({ ok: true, value: Array.isArray(results) ? results[i] : undefined });
        }),
      (error) => end((attempt) => attempt.settle({ ok: false, error })),
    );
  }

  /** Makes the attempt a running one; false if it must not run. */
  #begin(lane: Lane, attempt: Attempt): boolean {
    const { events, options } = this.#plan;
    if (performance.now() > attempt.safeUntil) {
      // The loop was blocked so long that the job may be another's by now: it was never started here.
      lane.held.delete(attempt.id);
      events.onLost(attempt.id);
      return false;
    }
    this.#running.add(attempt);
    attempt.begin((settlement) => this.#ended(lane, attempt, settlement));
    if (attempt.cancelled) {
      attempt.settle({ ok: false, error: attempt.signal.reason }); // before it could start
      return false;
    }
    if (attempt.record.stalls > options.maxStalls) {
      attempt.settle({ ok: false, error: new JobStalledError(attempt.id, attempt.record.stalls) });
      return false;
    }
    try {
      attempt.data; // read now: a handler must not meet what is no JSON
    } catch (error) {
      const malformed = new MalformedJobError(attempt.id, String(error));
      attempt.settle({ ok: false, error: malformed });
      return false;
    }
    events.onActive(attempt);
    return true;
  }

  #ended(lane: Lane, attempt: Attempt, settlement: Settlement): void {
    this.#running.delete(attempt);
    const tookMs = performance.now() - attempt.startedAt;
    this.#pace.handled(tookMs);
    const outcome = this.#report(lane, attempt, settlement);
    endedJob(lane.store.name, outcome, tookMs);
    this.pump();
  }

  #report(lane: Lane, attempt: Attempt, settlement: Settlement): Outcome {
    const { events } = this.#plan;
    if (settlement.ok) {
      try {
        lane.done(attempt, encodeData(settlement.value, attempt.name));
      } catch (error) {
        return this.#reportFailure(lane, attempt, error); // a result that has no JSON form
      }
      events.onCompleted(attempt, settlement.value);
      return "completed";
    }
    if (settlement.error instanceof LeaseLostError && lane.held.get(attempt.id) !== attempt) {
      events.onLost(attempt.id);
      return "lost";
    }
    return this.#reportFailure(lane, attempt, settlement.error);
  }

  #reportFailure(lane: Lane, attempt: Attempt, error: unknown): Outcome {
    const verdict = verdictOf(attempt, error, this.#plan.options.backoffs);
    lane.undone(attempt, verdict, JSON.stringify(failureOf(error)));
    const final = verdict === "dead";
    this.#plan.events.onFailed(attempt, error, final);
    return final ? "failed" : "retried";
  }

  /** Calls each lane that has a reason; a lower lane is asked only when all above it are dry. */
  #exchange(): void {
    const ahead = this.#pace.ahead;
    let above = false;
    for (const lane of this.#plan.lanes) {
      const room = this.#taking && !above ? Math.max(0, this.room + ahead) : 0;
      const wants = !lane.dry && room > 0;
      if (lane.calls < this.#callsPerLane && (wants || lane.ended > 0)) {
        // Half of it at a time: while one half is worked on, the other is fetched. Not for batches,
        // which should be as full as they can be.
        const halves = this.#plan.batchHandler === undefined ? 2 : 1;
        const share = Math.max(1, Math.ceil((this.#capacity + ahead) / halves));
        const want = Math.min(room, share, MOST_TAKEN);
        void this.#call(lane, want);
      }
      above ||= !lane.dry || lane.calls > 0;
    }
    if (this.#taking && !above && this.room > 0) this.#plan.events.onIdle();
  }

  async #call(lane: Lane, want: number): Promise<void> {
    lane.calls += 1;
    this.#asked += want;
    this.#callLeaves = true;
    const sentAt = performance.now();
    try {
      const taken = await lane.exchange(want);
      this.#backoff.reset();
      this.#pace.trip(performance.now() - sentAt);
      this.#receive(lane, lane.open(taken, sentAt));
      const count = taken.jobs.length / 2;
      if (count > 0) tookJobs(lane.store.name, count);
      if (want > 0) lane.dry = count < want;
      if (want > 0 && taken.laterMs >= 0) lane.restFor(taken.laterMs, () => this.pump());
      for (const id of taken.refused) this.#plan.events.onLost(id);
      this.#plan.hint(lane, taken.dueMs);
    } catch (error) {
      if (this.#over.signal.aborted) return;
      this.#plan.events.onError(error);
      await sleep(this.#backoff.next(), this.#over.signal).catch(() => {}); // over: no more calls
    } finally {
      lane.calls -= 1;
      this.#asked -= want;
      this.pump();
    }
  }

  #receive(lane: Lane, opened: ReturnType<Lane["open"]>): void {
    const at = performance.now();
    for (const attempt of opened.attempts) this.#buffer.push({ lane, attempt, at });
    for (const item of opened.unreadable) {
      const error = new MalformedJobError(item.id, "its record has another form");
      this.#plan.events.onError(error);
      lane.undone(item, "dead", JSON.stringify(failureOf(error)));
    }
    if (!this.#taking) this.#handBack();
  }

  #handBack(): void {
    for (const { lane, attempt } of this.#buffer.splice(0)) lane.undone(attempt, "back", "");
  }

  /** While something is fetched ahead, makes sure that it does not wait here for long. */
  #watchStale(): void {
    if (this.#buffer.length === 0) {
      clearTimeout(this.#stale);
      this.#stale = undefined;
      return;
    }
    this.#stale ??= setTimeout(() => {
      this.#stale = undefined;
      const oldest = this.#buffer[0];
      if (oldest !== undefined && performance.now() - oldest.at >= STALE_MS) this.#handBack();
      this.pump();
    }, STALE_MS);
  }
}

function isPromise(value: unknown): value is Promise<unknown> {
  return typeof (value as { then?: unknown } | undefined | null)?.then === "function";
}
