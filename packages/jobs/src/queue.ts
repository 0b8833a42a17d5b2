/** The producer's and the operator's end of a queue. */
import type { Redis } from "@ropeway/core";
import { currentTraceparent, IdSource, type WaitBounds } from "@ropeway/core/internal";
import { Adder } from "./adder.ts";
import { JobsClosedError } from "./errors.ts";
import { QueueEvents } from "./events.ts";
import { type ChildOutcome, type FlowJob, planFlow, readOutcome } from "./flow.ts";
import {
  Inspector,
  type QueueCounts,
  type SearchPage,
  type SearchQuery,
  type WorkerView,
} from "./inspector.ts";
import { Job, type JobHome } from "./job.ts";
import { checkName, planJob } from "./job-plan.ts";
import type { JobState, JobView } from "./job-view.ts";
import { readLimits, writeLimits } from "./limits.ts";
import { addedJobs } from "./metrics.ts";
import {
  type JobOptions,
  type QueueLimits,
  type QueueOptions,
  resolveQueueOptions,
} from "./options.ts";
import { encodeRecord, type RecordOptions } from "./record.ts";
import { Results } from "./results.ts";
import type { Schedule, ScheduleView } from "./schedule.ts";
import { ScheduleBook } from "./schedule-book.ts";
import { type NewJob, QueueStore } from "./store.ts";

/** One of many jobs for addBulk(). */
export interface BulkJob {
  readonly name: string;
  readonly data?: unknown;
  readonly options?: JobOptions;
}

/** A queue: add jobs, look at them, change them. Work is done by a Worker. */
export class Queue implements JobHome, AsyncDisposable {
  readonly name: string;
  readonly prefix: string;
  readonly #store: QueueStore;
  readonly #adder: Adder;
  readonly #inspector: Inspector;
  readonly #results: Results;
  readonly #schedules: ScheduleBook;
  readonly #ids = new IdSource();
  readonly #defaults: JobOptions | undefined;
  readonly #events = new Set<QueueEvents>();
  #closed: Promise<void> | undefined;

  constructor(redis: Redis, name: string, options?: QueueOptions) {
    const { prefix, defaults } = resolveQueueOptions(options);
    this.name = name;
    this.prefix = prefix;
    this.#defaults = Object.keys(defaults).length === 0 ? undefined : defaults;
    planJob(this.#defaults);
    this.#store = new QueueStore(redis, prefix, name);
    this.#adder = new Adder(this.#store);
    this.#inspector = new Inspector(this.#store);
    this.#results = new Results(this.#store);
    this.#schedules = new ScheduleBook(this.#store);
  }

  /** Adds a job; resolves when Redis has it. Adds of one tick travel together. */
  async add(name: string, data?: unknown, options?: JobOptions): Promise<Job> {
    const job = this.#plan(name, data, options);
    const other = await this.#adder.add(job);
    addedJobs(this.name, 1);
    if (other === undefined) return new Job(this, job.id, { name });
    return new Job(this, other.id, { name, why: other.why });
  }

  /** Adds many jobs in few round trips; each chunk of 500 is added as a whole. */
  async addBulk(jobs: readonly BulkJob[]): Promise<Job[]> {
    const planned = jobs.map((job) => this.#plan(job.name, job.data, job.options));
    const other = await this.#adder.addMany(planned);
    addedJobs(this.name, jobs.length);
    return planned.map((job, i) => {
      const instead = other.get(i);
      const { name } = jobs[i] as BulkJob;
      return new Job(this, instead?.id ?? job.id, { name, why: instead?.why });
    });
  }

  /** Adds a tree of jobs, all of it or nothing; returns the root. */
  async addFlow(flow: FlowJob): Promise<Job> {
    this.#checkOpen();
    const id = flow.options?.id ?? this.#ids.next();
    const jobs = planFlow(flow, id);
    const other = await this.#store.add(jobs);
    addedJobs(this.name, jobs.length);
    return new Job(this, id, { name: flow.name, why: other.get(0)?.why });
  }

  /** Adds a job and waits for its result. */
  async run(name: string, data: unknown, options: JobOptions & WaitBounds): Promise<unknown> {
    const { timeoutMs, signal, what, ...jobOptions } = options;
    const job = await this.add(name, data, { ...jobOptions, awaited: true });
    return job.result({ timeoutMs, signal, ...(what === undefined ? {} : { what }) });
  }

  /** The result of a job as soon as it has ended; JobFailedError if it failed. */
  result(id: string, bounds?: WaitBounds): Promise<unknown> {
    this.#checkOpen();
    return this.#results.of(id, bounds);
  }

  get(id: string): Promise<JobView | undefined> {
    return this.#inspector.get(id);
  }

  /** The outcomes of a parent's children, in their order. */
  async children(id: string): Promise<ChildOutcome[]> {
    const count = (await this.get(id))?.children ?? 0;
    const ids = Array.from({ length: count }, (_, i) => `${id}/${i}`);
    if (count === 0) return [];
    const texts = await this.#store.send<readonly (string | null)[]>(
      "HMGET",
      this.#store.keys.kids,
      ...ids,
    );
    return ids.map((child, i) => readOutcome(child, texts[i] ?? null));
  }

  counts(): Promise<QueueCounts> {
    return this.#inspector.counts();
  }

  search(query?: SearchQuery): Promise<SearchPage> {
    return this.#inspector.search(query);
  }

  workers(): Promise<WorkerView[]> {
    return this.#inspector.workers();
  }

  cancel(id: string, reason?: string): Promise<"removed" | "signalled"> {
    return this.#inspector.cancel(id, reason);
  }

  remove(id: string): Promise<void> {
    return this.#inspector.remove(id);
  }

  promote(id: string): Promise<void> {
    return this.#inspector.promote(id);
  }

  retry(id: string): Promise<void> {
    return this.#inspector.retry(id);
  }

  retryAll(query?: Omit<SearchQuery, "state" | "cursor" | "limit">): Promise<number> {
    return this.#inspector.retryAll(query);
  }

  /** Gives a job that has not started other data. */
  update(id: string, data: unknown): Promise<void> {
    return this.#inspector.update(id, data);
  }

  /** Forgets jobs by state; those running stay. @default waiting and delayed */
  drain(
    states: readonly Exclude<JobState, "active">[] = ["waiting", "delayed"],
    options: { readonly olderThanMs?: number } = {},
  ): Promise<number> {
    return this.#inspector.drain(states, options.olderThanMs);
  }

  /** No worker takes a job until resume(); running jobs go on. */
  async pause(): Promise<void> {
    await this.#store.send("HSET", this.#store.keys.meta, "paused", "1");
  }

  async resume(): Promise<void> {
    const { meta, wake } = this.#store.keys;
    await this.#store.send("HDEL", meta, "paused", "hold");
    await this.#store.send("ZADD", wake, "0", "0");
  }

  /** Sets limits that all workers obey; a limit that is not mentioned stays, null takes it away. */
  async setLimits(limits: QueueLimits): Promise<void> {
    await writeLimits(this.#store, limits);
  }

  limits(): Promise<QueueLimits> {
    return readLimits(this.#store);
  }

  /** Writes or replaces a recurring job. */
  setSchedule(id: string, schedule: Schedule): Promise<void> {
    return this.#schedules.set(id, schedule);
  }

  /** False if there was none. */
  removeSchedule(id: string): Promise<boolean> {
    return this.#schedules.remove(id);
  }

  schedules(): Promise<ScheduleView[]> {
    return this.#schedules.list();
  }

  /** Listens to the queue; while somebody does, workers and producers write events. */
  async events(): Promise<QueueEvents> {
    this.#checkOpen();
    const events = await QueueEvents.open(this.#store);
    this.#events.add(events);
    return events;
  }

  /** Waits for the adds under way; the connection stays open, it is yours. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    await this.#adder.settled();
    await Promise.all([
      this.#results.close(),
      ...[...this.#events].map((events) => events.close()),
    ]);
  }

  #plan(name: string, data: unknown, options: JobOptions | undefined): NewJob {
    this.#checkOpen();
    const wishes = this.#defaults === undefined ? options : { ...this.#defaults, ...options };
    const plan = planJob(wishes);
    const traceparent = currentTraceparent();
    const recordOptions: RecordOptions =
      traceparent === undefined ? plan.options : { ...plan.options, x: traceparent };
    return {
      id: wishes?.id === undefined ? this.#ids.next() : checkName("job id", wishes.id),
      where: plan.placement === undefined ? "" : JSON.stringify(plan.placement),
      record: encodeRecord(name, data, recordOptions),
    };
  }

  #checkOpen(): void {
    if (this.#closed !== undefined) throw new JobsClosedError(`queue ${this.name}`);
  }
}
