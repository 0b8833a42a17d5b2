/**
 * One attempt of one job, from the moment it was taken until its outcome is on its way.
 *
 *   taken -> running -> settled (once)     by the handler, its timeout, an obeyed cancel, a lost lease
 *
 * An attempt that was settled by anything but its handler frees its slot at once, so that a handler that
 * never returns cannot block a worker. Its signal aborts.
 */
import { inspect } from "node:util";
import { InvalidArgumentError, LeaseLostError } from "@ropeway/core";
import { between, guardSignal } from "@ropeway/core/internal";
import type { JobDefinitions } from "../definition.ts";
import { InvalidFlowError, JobTimeoutError } from "../errors.ts";
import {
  type ChildOutcome,
  checkTrees,
  childIds,
  type FlowJob,
  FlowPlanner,
  jobsIn,
  levelOf,
  newFlow,
  readOutcome,
} from "../flow/flow.ts";
import { LONGEST_MS } from "../options.ts";
import { decodeData, decodeRecord, encodeData, type JobRecord } from "../record.ts";
import type { HeldJob, QueueStore } from "../store/queue-store.ts";

/** The argument of a handler: the job, and the methods that it can call while it runs. */
export interface JobContext<Data = unknown, Name extends string = string, Input = Data> {
  readonly id: string;
  readonly name: Name;
  readonly queue: string;
  readonly data: Data;
  /** The number of this attempt; the first is 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** How often the job lost its worker before. */
  readonly stalls: number;
  /** When the job was added; ms of the Redis clock. */
  readonly addedAt: number;
  readonly group: string | undefined;
  /**
   * Increases each time a worker takes a job of the queue. A store can refuse writes with a smaller fence.
   */
  readonly fence: number;
  /** Aborted when the job is cancelled, times out, or no longer belongs to this worker. */
  readonly signal: AbortSignal;
  /** Stores the progress of the job: any JSON value. */
  progress(value: unknown): Promise<void>;
  /** Adds a line to the job's log. It is cut after 4,000 characters. */
  log(line: string): Promise<void>;
  /** Restarts `timeoutMs`. Throws LeaseLostError if the job was lost. */
  touch(): Promise<void>;
  /**
   * Replaces the job's data, for this attempt and all later ones. Takes the same type as add(). With a schema,
   * `data` is then the output of the schema.
   */
  update(data: Input): Promise<void>;
  /** Ends this attempt and runs the job again after `ms`. It does not count as an attempt. */
  delay(ms: number): never;
  /** The outcomes of the jobs this one waits for. */
  children(): Promise<ChildOutcome[]>;
  /** Adds jobs that this one waits for, once it calls waitForChildren(). Returns their ids. */
  addChildren(children: readonly FlowJob[]): Promise<string[]>;
  /**
   * Ends this attempt and runs the job again when all its children have ended. It does not count as an
   * attempt.
   */
  waitForChildren(): never;
  /** In a batch: fails this job, but not the others. */
  fail(error: unknown): void;
}

/** Thrown by delay() and waitForChildren(). The job is put back and is neither done nor failed. */
export class PutBack {
  /** The verdict for next.lua. */
  readonly verdict: string;

  constructor(verdict: string) {
    this.verdict = verdict;
  }
}

/** How an attempt ended. */
export type Settlement =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown };

/** The values that all attempts of a worker share. */
export interface AttemptHome {
  readonly store: QueueStore;
  readonly logLines: number;
  readonly definitions?: JobDefinitions<unknown> | undefined;
  /** Reports an error that an abort listener of a handler throws. */
  onError(error: unknown): void;
}

/** One attempt of a job. */
export class Attempt implements JobContext {
  readonly id: string;
  readonly fence: number;
  /** The worker, once its name is in the job's token. */
  holder: string | undefined;
  readonly record: JobRecord;
  /** The length of its data as JSON. */
  size: number;
  /** Local time until which the lease is certainly ours. */
  safeUntil: number;
  startedAt = 0;
  /** How long the handler took. */
  tookMs = 0;
  /** Whether it has written notes, which have to be cleaned up. */
  noted = false;
  cancelled = false;
  /** Whether its handler threw RateLimitedError, so that the queue is on hold. */
  limited = false;
  readonly #home: AttemptHome;
  #data: unknown;
  #read = false;
  #children: number;
  /** The token of the flow that its children belong to. */
  #flow: string | undefined;
  #adding: Promise<unknown> = Promise.resolve();
  /** The children of a call that failed, as JSON: they may have been added. */
  #unsure: string | undefined;
  #controller: AbortController | undefined;
  #abortReason: unknown;
  #timer: NodeJS.Timeout | undefined;
  #settle: ((settlement: Settlement) => void) | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(home: AttemptHome, record: JobRecord, lease: Lease) {
    this.#home = home;
    this.record = record;
    this.size = record.json.length;
    this.id = lease.id;
    this.fence = lease.fence;
    this.holder = lease.holder;
    this.safeUntil = lease.safeUntil;
    this.#children = record.options.n ?? 0;
    this.#flow = record.options.y;
  }

  get name(): string {
    return this.record.name;
  }

  get queue(): string {
    return this.#home.store.name;
  }

  get data(): unknown {
    if (!this.#read) {
      this.data = decodeData(this.record.json);
      this.record.json = ""; // its string is as long as the data and would stay in memory as long
    }
    return this.#data;
  }

  /** The output of the schema, or the data of update(). */
  set data(value: unknown) {
    this.#data = value;
    this.#read = true;
  }

  get attempt(): number {
    return this.record.attempts + 1;
  }

  get maxAttempts(): number {
    return this.record.options.a ?? 1;
  }

  get stalls(): number {
    return this.record.stalls;
  }

  get addedAt(): number {
    return this.record.addedAt;
  }

  get group(): string | undefined {
    return this.record.options.g;
  }

  /** Created on first use, because most handlers never use it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      guardSignal(this.#controller.signal, (error) => this.#home.onError(error));
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason);
    }
    return this.#controller.signal;
  }

  async progress(value: unknown): Promise<void> {
    await this.#note("progress", encodeData(value ?? null, this.name));
  }

  async log(line: string): Promise<void> {
    const text = typeof line === "string" ? line : inspect(line); // other values are formatted as by console.log()
    await this.#note("log", text.slice(0, LONGEST_LINE));
  }

  async touch(): Promise<void> {
    if (this.#abortReason !== undefined) throw this.#abortReason;
    this.#arm();
    if (!(await this.#home.store.holds(this))) throw this.#lost();
  }

  async update(data: unknown): Promise<void> {
    const { definitions, store } = this.#home;
    const json = encodeData(data, this.name);
    const read = definitions === undefined ? data : await definitions.readData(this.name, data);
    if (!(await store.updateHeld(this, json))) throw this.#lost();
    this.size = json.length;
    this.data = read;
  }

  delay(ms: number): never {
    if (!DELAY.accepts(ms)) throw new InvalidArgumentError("ms", ms, DELAY.allowed);
    throw new PutBack(`delay ${Math.ceil(ms)}`);
  }

  async children(): Promise<ChildOutcome[]> {
    const ids = childIds(this.id, this.#children);
    const texts = await this.#home.store.childOutcomes(this.#flow, ids);
    return ids.map((id, i) => readOutcome(id, texts[i] ?? null));
  }

  /** One call at a time, because the ids of children depend on how many there are. */
  addChildren(children: readonly FlowJob[]): Promise<string[]> {
    const added = this.#adding.then(() => this.#addChildren(children));
    this.#adding = added.catch(() => {}); // its caller gets the error
    return added;
  }

  async #addChildren(given: readonly FlowJob[]): Promise<string[]> {
    const { store, definitions } = this.#home;
    checkTrees(given, this.record.options.f === undefined ? 2 : levelOf(this.id) + 1);
    await definitions?.checkFlow(jobsIn(store.name, given));
    this.#flow ??= newFlow();
    const flow = this.#flow;
    const { x: traceparent } = this.record.options;
    const planner = new FlowPlanner({ queue: store.name, defaults: undefined, traceparent, flow });
    const plan = () => planner.planChildren(given, this.id, this.#children);
    let children = plan();
    if (children.length === 0) return [];
    if (this.#unsure !== undefined && this.#unsure !== JSON.stringify(children)) {
      this.#children = await this.#storedChildren(); // those of the failed call may be among them
      children = plan();
    }
    const before = this.#children;
    this.#unsure = JSON.stringify(children);
    const { lost, taken } = await store.addChildren(this, { flow, before, children });
    this.#unsure = undefined;
    if (lost) throw this.#lost();
    if (taken !== undefined) {
      throw new InvalidFlowError(`queue ${store.name} has a job ${taken} already`);
    }
    this.#children += children.length;
    return childIds(this.id, this.#children).slice(before);
  }

  /** How many children the job has in Redis. */
  async #storedChildren(): Promise<number> {
    const raw = await this.#home.store.inspect(this.id);
    return decodeRecord(raw?.record ?? "")?.options.n ?? 0;
  }

  waitForChildren(): never {
    throw new PutBack("children");
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
  }

  /** How many children it has, whether they have ended or not. */
  get childCount(): number {
    return this.#children;
  }

  /** Whether next.lua has to read the record when it ends. */
  get special(): boolean {
    const { options, attempts, stalls } = this.record;
    if (this.noted || this.cancelled || attempts > 0 || stalls > 0) return true;
    const { g, f, n, d, k } = options;
    return (
      this.#children > 0 || this.#unsure !== undefined || (g ?? f ?? n ?? d ?? k) !== undefined
    );
  }

  /** Starts the attempt. `settle` is called exactly once. */
  begin(settle: (settlement: Settlement) => void): void {
    this.startedAt = performance.now();
    this.#settle = settle;
    if (this.record.options.t !== undefined) this.#arm();
  }

  /** Ends the attempt, unless it has ended. */
  settle(settlement: Settlement): void {
    const settle = this.#settle;
    if (settle === undefined) return;
    this.#settle = undefined;
    this.tookMs = performance.now() - this.startedAt;
    clearTimeout(this.#timer);
    settle(this.#failure === undefined ? settlement : { ok: false, ...this.#failure });
  }

  /** Aborts the handler's signal. */
  abort(reason: unknown): void {
    this.#abortReason ??= reason;
    this.#controller?.abort(reason);
  }

  #arm(): void {
    const timeoutMs = this.record.options.t;
    if (timeoutMs === undefined || this.#settle === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const error = new JobTimeoutError(this.id, timeoutMs);
      this.abort(error);
      this.settle({ ok: false, error });
    }, timeoutMs);
  }

  async #note(kind: "progress" | "log", value: string): Promise<void> {
    this.noted = true;
    const { store, logLines: lines } = this.#home;
    if (!(await store.note(this, { kind, value, lines }))) throw this.#lost();
  }

  #lost(): LeaseLostError {
    return new LeaseLostError(`job ${this.id}`, this.fence);
  }
}

const DELAY = between(0, LONGEST_MS);
/** Limits a line, because Redis reads and writes the whole log with each line. */
const LONGEST_LINE = 4_000;

/** A taken job and its lease. */
export interface Lease extends HeldJob {
  readonly safeUntil: number;
}
