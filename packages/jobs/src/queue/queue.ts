/**
 * The queue of producers and operators.
 *
 *   add() -> plan (options checked) -> Adder (one call per tick) -> Producer (numbered) -> store -> add.lua
 */
import { ClosedError, type Page, type Redis } from "@ropeway/core";
import { requireRedis, type WaitBounds } from "@ropeway/core/internal";
import {
  Admin,
  type JobChanges,
  type MinuteRates,
  type QueueCounts,
  type SearchQuery,
  type WorkerView,
} from "../admin/admin.ts";
import type { JobState, JobView } from "../admin/job-view.ts";
import { readLimits, writeLimits } from "../admin/limits.ts";
import type {
  AnyJobs,
  JobDefinitions,
  JobInput,
  JobName,
  JobResult,
  JobTypes,
} from "../definition.ts";
import { InvalidFlowError, JobNotFoundError } from "../errors.ts";
import {
  type ChildOutcome,
  checkTrees,
  childIds,
  type FlowJob,
  type FlowRoot,
  jobsIn,
  readOutcome,
} from "../flow/flow.ts";
import { Relay } from "../flow/relay.ts";
import { addedJobs } from "../metrics.ts";
import { checkId, checkName } from "../name.ts";
import { type QueueLimits, type QueueOptions, resolveQueueOptions } from "../options.ts";
import { decodeRecord } from "../record.ts";
import { checkSchedule, type Schedule, type ScheduleView } from "../schedule/schedule.ts";
import { Scheduler } from "../schedule/scheduler.ts";
import { AdminStore } from "../store/admin-store.ts";
import { type NewJob, QueueStore } from "../store/queue-store.ts";
import { isRegistered, registeredQueues } from "../store/registry.ts";
import { ScheduleStore } from "../store/schedule-store.ts";
import { Adder } from "./adder.ts";
import {
  type AddArguments,
  type BulkJob,
  checkBounds,
  checkBulk,
  checkChanges,
  checkOptions,
  checkRun,
  type RunOptions,
} from "./arguments.ts";
import { Job } from "./job.ts";
import { JobPlanner } from "./job-planner.ts";
import { Producer } from "./producer.ts";
import { QueueEvents } from "./queue-events.ts";
import { Results } from "./results.ts";

/** The handle on a job by its name. */
export type JobOf<Jobs extends JobTypes<Jobs>, N extends JobName<Jobs>> = Job<
  JobResult<Jobs, N>,
  N,
  JobInput<Jobs, N>
>;

/**
 * A task queue: add jobs, inspect them, change them. A Worker runs them. `Jobs` declares the names of the jobs
 * and what they take and return. Without it, any name and any JSON value is allowed. Closing the queue leaves the
 * connection open.
 */
export class Queue<Jobs extends JobTypes<Jobs> = AnyJobs> implements AsyncDisposable {
  readonly name: string;
  readonly prefix: string;
  readonly #redis: Redis;
  readonly #store: QueueStore;
  readonly #planner: JobPlanner;
  readonly #producer: Producer;
  readonly #adder: Adder;
  readonly #adminStore: AdminStore;
  readonly #admin: Admin;
  readonly #results: Results;
  readonly #scheduler: Scheduler;
  readonly #relay: Relay;
  readonly #definitions: JobDefinitions<unknown> | undefined;
  readonly #events = new Set<QueueEvents<Jobs>>();
  #closed: Promise<void> | undefined;

  constructor(redis: Redis, name: string, options?: QueueOptions<Jobs>) {
    requireRedis(redis);
    const { prefix, defaults: given, jobs } = resolveQueueOptions(options as QueueOptions<never>);
    const defaults = Object.keys(given).length === 0 ? undefined : given;
    this.name = name;
    this.prefix = prefix;
    this.#redis = redis;
    this.#definitions = jobs;
    this.#planner = new JobPlanner(name, defaults);
    this.#store = new QueueStore(redis, prefix, name);
    this.#producer = new Producer(this.#store);
    this.#adder = new Adder(this.#producer);
    this.#adminStore = new AdminStore(this.#store);
    this.#admin = new Admin(this.#adminStore, this.#store);
    this.#results = new Results(this.#store);
    this.#scheduler = new Scheduler(new ScheduleStore(this.#store), defaults);
    this.#relay = new Relay(this.#store, (error) => this.#undelivered(error));
  }

  /** The names of all queues under a prefix, in alphabetical order. */
  static async list(redis: Redis, options?: Pick<QueueOptions, "prefix">): Promise<string[]> {
    requireRedis(redis);
    return registeredQueues(redis, resolveQueueOptions(options).prefix);
  }

  /** Whether a job was ever added or a worker ever started here, and the queue was not obliterated. */
  exists(): Promise<boolean> {
    return isRegistered(this.#redis, this.prefix, this.name);
  }

  /** Adds a job and resolves when Redis has it. Jobs that are added in one tick are sent together. */
  async add<N extends JobName<Jobs>>(
    name: N,
    ...[data, options]: AddArguments<JobInput<Jobs, N>>
  ): Promise<JobOf<Jobs, N>> {
    if (this.#definitions !== undefined) await this.#definitions.checkInput(name, data);
    this.#checkOpen();
    const job = this.#planner.plan(name, data, options);
    const other = await this.#adder.add(job);
    addedJobs(this.name, 1);
    if (other === undefined) return new Job(this, job.id, { name });
    return new Job(this, other.id, { name, why: other.why });
  }

  /** Adds many jobs in few round trips. Each chunk of up to 500 is added by one script. */
  async addBulk<const B extends readonly BulkJob<Jobs>[]>(
    jobs: B,
  ): Promise<JobOf<Jobs, B[number]["name"]>[]> {
    checkBulk(jobs);
    if (this.#definitions !== undefined) {
      for (const job of jobs) await this.#definitions.checkInput(job.name, job.data);
    }
    this.#checkOpen();
    const planned = jobs.map((job) => this.#planner.plan(job.name, job.data, job.options));
    const other = await this.#adder.addMany(planned);
    addedJobs(this.name, jobs.length);
    return planned.map((job, i) => {
      const instead = other.get(i);
      const name = (jobs[i] as BulkJob<Jobs>).name as B[number]["name"];
      return new Job(this, instead?.id ?? job.id, { name, why: instead?.why });
    });
  }

  /**
   * Adds a tree of jobs, all of it or nothing, and returns its root. If the root's id exists already,
   * nothing is added and the handle is the existing job.
   */
  async addFlow<const F extends FlowRoot<Jobs>>(flow: F): Promise<JobOf<Jobs, F["name"]>> {
    this.#checkOpen();
    checkTrees([flow]);
    await this.#definitions?.checkFlow(jobsIn(this.name, [flow as FlowJob]));
    const jobs = this.#planner.planFlow(flow as FlowJob);
    const [{ id }] = jobs as [NewJob];
    const other = await this.#producer.add(jobs, true);
    const [index, instead] = [...other][0] ?? [];
    if (index !== undefined && index > 0) {
      throw new InvalidFlowError(`queue ${this.name} has a job ${instead?.id} already`);
    }
    if (jobs.some((job) => job.record === "")) await this.#deliver();
    addedJobs(this.name, other.size === 0 ? jobs.length : 0);
    return new Job(this, instead?.id ?? id, { name: flow.name as F["name"], why: instead?.why });
  }

  /** Adds a job, waits until it has ended, and returns its result. See Job.result(). */
  async run<N extends JobName<Jobs>>(
    name: N,
    ...[data, options]: undefined extends JobInput<Jobs, N>
      ? [data?: JobInput<Jobs, N>, options?: RunOptions]
      : [data: JobInput<Jobs, N>, options?: RunOptions]
  ): Promise<JobResult<Jobs, N>> {
    const { bounds, jobOptions } = checkRun(options);
    const rest = [data, { ...jobOptions, awaited: true }] as AddArguments<JobInput<Jobs, N>>;
    const job = await this.add(name, ...rest);
    return job.result(bounds);
  }

  /** The result of a job by its id. See Job.result(). */
  async result(id: string, bounds?: WaitBounds): Promise<unknown> {
    this.#checkOpen();
    return this.#results.of(checkId(id), checkBounds(bounds));
  }

  /** All stored information about a job; undefined if it does not exist. */
  get(id: string): Promise<JobView | undefined> {
    return this.#admin.get(id);
  }

  /** A handle on a job that may exist. */
  job<N extends JobName<Jobs>>(id: string, name: N): JobOf<Jobs, N> {
    return new Job(this, checkName("job id", id), { name });
  }

  /** The outcomes of a parent's children, in their order. Throws JobNotFoundError if it does not exist. */
  async children(id: string): Promise<ChildOutcome[]> {
    const raw = await this.#store.inspect(checkName("job id", id));
    if (raw === undefined) throw new JobNotFoundError(this.name, id);
    const { n = 0, y } = decodeRecord(raw.record)?.options ?? {};
    const ids = childIds(id, n);
    const texts = await this.#store.childOutcomes(y, ids);
    return ids.map((child, i) => readOutcome(child, texts[i] ?? null));
  }

  /** How many jobs are in each state, and totals since the queue was created. */
  counts(): Promise<QueueCounts> {
    return this.#admin.counts();
  }

  /** How many jobs ended per minute, for charts: up to the last 1440 minutes, oldest first. @default 60 */
  rates(minutes: number = 60): Promise<MinuteRates[]> {
    return this.#admin.rates(minutes);
  }

  /** Finds jobs by state, name, group and data. */
  search(query?: SearchQuery): Promise<Page<JobView>> {
    return this.#admin.search(query);
  }

  /** The workers of the queue that are alive. */
  workers(): Promise<WorkerView[]> {
    return this.#admin.workers();
  }

  /** Takes a job out of the queue or, if it runs, aborts its handler's signal. */
  cancel(id: string, reason?: string): Promise<"removed" | "signalled"> {
    return this.#admin.cancel(id, reason);
  }

  /** Removes a job. Throws JobStateError if it is running. */
  remove(id: string): Promise<void> {
    return this.#admin.remove(id);
  }

  /** Ends a job's delay. */
  promote(id: string): Promise<void> {
    return this.#admin.promote(id);
  }

  /** Runs an ended job again, with all its attempts. */
  retry(id: string): Promise<void> {
    return this.#admin.retry(id);
  }

  /** Retries the matching jobs that have failed until now. Returns how many. */
  retryAll(query?: Omit<SearchQuery, "state" | "cursor" | "limit" | "scan">): Promise<number> {
    return this.#admin.retryAll(query);
  }

  /** Changes the data, priority or delay of a job that has not started. */
  async update(id: string, changes: JobChanges): Promise<void> {
    checkChanges(changes);
    if (this.#definitions !== undefined && "data" in changes) {
      const { name } = (await this.#admin.get(id)) ?? {};
      if (name !== undefined) await this.#definitions.checkInput(name, changes.data);
    }
    await this.#admin.update(id, changes);
  }

  /**
   * Removes the jobs in the given states, "waiting" and "delayed" if none are given; running jobs stay.
   * `olderThanMs` keeps jobs that were added (or ended, if they have) more recently.
   */
  async drain(
    states: readonly Exclude<JobState, "active">[] = ["waiting", "delayed"],
    options: { readonly olderThanMs?: number } = {},
  ): Promise<number> {
    checkOptions(options, "olderThanMs");
    return this.#admin.drain(states, options.olderThanMs);
  }

  /** Frees a dedupe key; false if no job held it. */
  removeDedupeKey(key: string): Promise<boolean> {
    return this.#admin.removeDedupeKey(key);
  }

  /**
   * Deletes the queue with everything in it; returns how many jobs it had. To parents in other queues and to
   * callers of result(), its jobs were removed. Throws QueueActiveError if jobs run, unless `force` is true.
   */
  async obliterate(options: { readonly force?: boolean } = {}): Promise<number> {
    checkOptions(options, "force");
    const { force = false } = options;
    const jobs = await this.#admin.obliterate(force, () => this.#relay.tellParents());
    this.#store.unregistered();
    return jobs;
  }

  /** Stops workers from taking jobs until resume(). Running jobs continue. */
  pause(): Promise<void> {
    return this.#adminStore.pause();
  }

  /** Lets workers take jobs again. */
  resume(): Promise<void> {
    return this.#adminStore.resume();
  }

  /** Sets limits that all workers obey. A limit that is not mentioned stays; null removes it. */
  async setLimits(limits: QueueLimits): Promise<void> {
    await writeLimits(this.#adminStore, limits);
  }

  /** The limits in force. */
  limits(): Promise<QueueLimits> {
    return readLimits(this.#adminStore);
  }

  /** Writes or replaces a recurring job. */
  async setSchedule(id: string, schedule: Schedule<Jobs>): Promise<void> {
    this.#checkOpen();
    checkSchedule(schedule as Schedule);
    await this.#definitions?.checkInput(schedule.name, schedule.data);
    await this.#store.register();
    await this.#scheduler.set(id, schedule as Schedule);
  }

  /** Removes a recurring job; false if there was none. */
  removeSchedule(id: string): Promise<boolean> {
    return this.#scheduler.remove(id);
  }

  /** All recurring jobs, by id. */
  schedules(): Promise<ScheduleView[]> {
    return this.#scheduler.list();
  }

  /** Listens to the queue. Workers and producers write events only while a listener is attached. */
  async events(): Promise<QueueEvents<Jobs>> {
    this.#checkOpen();
    const events = new QueueEvents<Jobs>(this.#redis, this.name, { prefix: this.prefix });
    for (const old of this.#events) if (old.state === "closed") this.#events.delete(old);
    this.#events.add(events);
    try {
      return await events.start();
    } catch (error) {
      this.#events.delete(events);
      throw error;
    }
  }

  /** Waits for the adds under way. The connection stays open. */
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

  /** Delivers the messages of an added flow. A worker of the queue delivers messages that cannot be delivered now. */
  async #deliver(): Promise<void> {
    try {
      await this.#relay.deliver();
    } catch (error) {
      this.#undelivered(error);
    }
  }

  #undelivered(error: unknown): void {
    const { logger } = this.#redis;
    logger.warn({ err: error, queue: this.name }, "cannot deliver a message to another queue");
  }

  #checkOpen(): void {
    if (this.#closed !== undefined) throw new ClosedError(`queue ${this.name}`);
  }
}
