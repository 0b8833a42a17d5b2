/**
 * One try of one job: from the moment it was taken until its outcome is on its way.
 *
 *   taken -> running -> settled (once)     by the handler, its timeout, a cancel it obeyed, a lost lease
 *
 * An attempt that was settled by anything but its handler frees its slot at once: a handler that never
 * returns cannot hold a worker. Its signal tells the handler.
 */

import { JobTimeoutError, LeaseLostError } from "./errors.ts";
import type { ChildOutcome } from "./flow.ts";
import { readOutcome } from "./flow.ts";
import { decodeData, encodeData, type JobRecord } from "./record.ts";
import type { QueueStore } from "./store.ts";

/** What a handler gets. */
export interface JobContext<Data = unknown> {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly data: Data;
  /** Which try this is; the first is 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** How often its worker was lost before. */
  readonly stalls: number;
  /** When the job was added; ms of the Redis clock. */
  readonly addedAt: number;
  readonly group: string | undefined;
  /** Grows with every taking of any job of the queue: let what you write to refuse smaller ones. */
  readonly fence: number;
  /** Aborted when the job is cancelled, runs out of time, or no longer belongs to this worker. */
  readonly signal: AbortSignal;
  /** Shows how far it is: any JSON value. */
  progress(value: unknown): Promise<void>;
  /** Adds a line to the job's log. */
  log(line: string): Promise<void>;
  /** Starts `timeoutMs` anew; throws LeaseLostError if the job was lost. */
  touch(): Promise<void>;
  /** The outcomes of the jobs this one waited for. */
  children(): Promise<ChildOutcome[]>;
  /** In a batch: this one failed, the others did not. */
  fail(error: unknown): void;
}

/** How an attempt ended. */
export type Settlement =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown };

/** What all attempts of a worker share. */
export interface AttemptHome {
  readonly store: QueueStore;
  readonly logLines: number;
}

/** One try. */
export class Attempt implements JobContext {
  readonly id: string;
  readonly token: string;
  readonly fence: number;
  readonly record: JobRecord;
  /** Local time until which the lease is certainly ours. */
  safeUntil: number;
  startedAt = 0;
  /** It has written notes, which have to be cleaned up. */
  noted = false;
  cancelled = false;
  readonly #home: AttemptHome;
  #data: { readonly value: unknown } | undefined;
  #controller: AbortController | undefined;
  #abortReason: unknown;
  #timer: NodeJS.Timeout | undefined;
  #settle: ((settlement: Settlement) => void) | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(home: AttemptHome, record: JobRecord, lease: Lease) {
    this.#home = home;
    this.record = record;
    this.id = lease.id;
    this.token = lease.token;
    this.fence = lease.fence;
    this.safeUntil = lease.safeUntil;
  }

  get name(): string {
    return this.record.name;
  }

  get queue(): string {
    return this.#home.store.name;
  }

  get data(): unknown {
    this.#data ??= { value: decodeData(this.record.json) };
    return this.#data.value;
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

  /** Made when first asked for: most handlers never do. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason);
    }
    return this.#controller.signal;
  }

  async progress(value: unknown): Promise<void> {
    await this.#note("progress", encodeData(value ?? null, this.name));
  }

  async log(line: string): Promise<void> {
    await this.#note("log", String(line));
  }

  async touch(): Promise<void> {
    if (this.#abortReason !== undefined) throw this.#abortReason;
    this.#arm();
    const held = await this.#home.store.send<string | null>(
      "HGET",
      this.#home.store.keys.active,
      this.id,
    );
    if (held !== this.token) throw new LeaseLostError(this.id, this.fence);
  }

  async children(): Promise<ChildOutcome[]> {
    const ids = Array.from({ length: this.record.options.n ?? 0 }, (_, i) => `${this.id}/${i}`);
    if (ids.length === 0) return [];
    const { store } = this.#home;
    const texts = await store.send<readonly (string | null)[]>("HMGET", store.keys.kids, ...ids);
    return ids.map((id, i) => readOutcome(id, texts[i] ?? null));
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
  }

  /** Whether next.lua has to look at the record when it ends. */
  get special(): boolean {
    const { options, attempts, stalls } = this.record;
    if (this.noted || this.cancelled || attempts > 0 || stalls > 0) return true;
    const { g, f, n, d, k } = options;
    return (g ?? f ?? n ?? d ?? k) !== undefined;
  }

  /** Begins; `settle` is called exactly once. */
  begin(settle: (settlement: Settlement) => void): void {
    this.startedAt = performance.now();
    this.#settle = settle;
    if (this.record.options.t !== undefined) this.#arm();
  }

  /** Ends it, unless it has ended. */
  settle(settlement: Settlement): void {
    const settle = this.#settle;
    if (settle === undefined) return;
    this.#settle = undefined;
    clearTimeout(this.#timer);
    settle(this.#failure === undefined ? settlement : { ok: false, ...this.#failure });
  }

  /** Tells the handler to stop. */
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
    if (!(await this.#home.store.note(this, kind, [value, this.#home.logLines]))) {
      throw new LeaseLostError(this.id, this.fence);
    }
  }
}

/** What taking a job gave. */
export interface Lease {
  readonly id: string;
  readonly token: string;
  readonly fence: number;
  readonly safeUntil: number;
}
