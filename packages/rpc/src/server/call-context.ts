/**
 * The call that a handler runs, and what the handler can do with it. Most handlers use little of it, so
 * expensive parts (above all the signal and its timer) are created on first use.
 */

import { guardSignal } from "@ropeway/core/internal";
import { CancelledError, DeadlineExceededError } from "../errors.ts";
import type { CallOptions } from "../options.ts";
import { type TimerWheel, WheelTimer } from "../timer-wheel.ts";
import type { IncomingCall, Metadata } from "../wire/dialect.ts";

/** The session a call belongs to. */
export interface SessionInfo {
  readonly group: string;
  /** The name of the session; undefined if the caller did not send it. */
  readonly client: string | undefined;
  /** Whether this is the first call of the session to run since it was mapped to this node. */
  readonly isNew: boolean;
  /** A fencing token: grows each time the session is mapped to a node. */
  readonly epoch: number | undefined;
}

/** The second argument of every handler. */
export interface CallContext {
  readonly id: string;
  readonly service: string;
  readonly method: string;
  /** This worker's node name. */
  readonly node: string;
  /** The arguments as received, before validation. */
  readonly params: unknown;
  /** The headers that the caller sent. */
  readonly metadata: Metadata;
  /** Aborts when the caller cancels, the deadline passes, the lease is lost or the server closes. */
  readonly signal: AbortSignal;
  /** In milliseconds since the epoch, Redis time; undefined if the caller set none. */
  readonly deadline: number | undefined;
  /** Milliseconds left until the deadline; Infinity without one. */
  readonly remainingMs: number;
  readonly session: SessionInfo | undefined;
  /** Values that middleware passes to the inner layers. */
  readonly meta: Record<string, unknown>;
  /** The items that a duplex caller sends; empty for other calls. */
  readonly incoming: AsyncIterable<unknown>;
  /**
   * Reports progress from 0 to 1, if the caller requested it. The first 1,000 reports of a call are all sent.
   * After them at most one per second is sent, and the others are dropped.
   */
  progress(percent: number, message?: string): void;
  /**
   * Calls another service within this call's deadline. The nested call is cancelled with this one, belongs
   * to the same trace, and carries the same metadata unless it has its own.
   */
  call(target: string, params?: unknown, options?: CallOptions): Promise<unknown>;
}

/** What a running call needs from its server. */
export interface ContextHost {
  readonly node: string;
  readonly wheel: TimerWheel;
  now(): number;
  progress(call: IncomingCall, percent: number, message: string): void;
  nested(target: string, params: unknown, options: CallOptions): Promise<unknown>;
  /** Called with the error of a handler's abort listener. */
  onError(error: unknown): void;
}

/** One running call. */
export class RunningCall implements CallContext {
  readonly service: string;
  readonly request: IncomingCall;
  readonly session: SessionInfo | undefined;
  readonly #host: ContextHost;
  #abort: AbortController | undefined;
  /** Aborts the signal at the deadline. */
  #timer: WheelTimer | undefined;
  #reason: unknown;
  #meta: Record<string, unknown> | undefined;
  #reports = 0;
  #reportedAt = 0;
  incoming: AsyncIterable<unknown> = NOTHING;

  constructor(
    host: ContextHost,
    call: IncomingCall,
    where: { readonly service: string; readonly session: SessionInfo | undefined },
  ) {
    this.#host = host;
    this.request = call;
    this.service = where.service;
    this.session = where.session;
  }

  get id(): string {
    return this.request.id;
  }

  get method(): string {
    return this.request.method;
  }

  get node(): string {
    return this.#host.node;
  }

  get deadline(): number | undefined {
    return this.request.deadline;
  }

  get remainingMs(): number {
    const { deadline } = this.request;
    return deadline === undefined ? Number.POSITIVE_INFINITY : deadline - this.#host.now();
  }

  get params(): unknown {
    return this.request.params;
  }

  get metadata(): Metadata {
    return this.request.metadata ?? NO_METADATA;
  }

  get meta(): Record<string, unknown> {
    this.#meta ??= {};
    return this.#meta;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      guardSignal(this.#abort.signal, (error) => this.#host.onError(error));
      if (this.#reason !== undefined) this.#abort.abort(this.#reason);
      // A stream may run past its deadline, which only limits when it must have started.
      else if (this.deadline !== undefined && this.request.window === undefined) {
        this.#timer = new WheelTimer(() => this.#expire());
        this.#host.wheel.set(this.#timer, Math.max(0, this.remainingMs));
      }
    }
    return this.#abort.signal;
  }

  /** The reason of the abort; undefined if the call was not aborted. */
  get aborted(): unknown {
    return this.#reason;
  }

  progress(percent: number, message: string = ""): void {
    if (!this.request.track) return;
    // Reports stay in a list that other programs may read, so it must not grow as fast as a handler loops.
    const at = performance.now();
    if (this.#reports >= REPORTS_AT_ONCE && at - this.#reportedAt < REPORT_EVERY_MS) return;
    this.#reports += 1;
    this.#reportedAt = at;
    this.#host.progress(this.request, percent, message);
  }

  call(target: string, params: unknown = [], options: CallOptions = {}): Promise<unknown> {
    const remaining = this.remainingMs;
    if (remaining <= 0) {
      return Promise.reject(new DeadlineExceededError(`the call of ${target}`, 0));
    }
    const bounded = Number.isFinite(remaining)
      ? { timeoutMs: Math.min(options.timeoutMs ?? remaining, remaining) }
      : {};
    const { metadata } = this.request;
    return this.#host.nested(target, params, {
      signal: this.signal,
      metadata,
      ...options,
      ...bounded,
    });
  }

  /** Aborts the handler's signal. */
  abort(reason: unknown = new CancelledError(`${this.service}.${this.method}`)): void {
    this.#reason ??= reason;
    this.#abort?.abort(this.#reason);
    this.finish();
  }

  /** Call it when the handler has ended. */
  finish(): void {
    if (this.#timer !== undefined) this.#host.wheel.clear(this.#timer);
  }

  #expire(): void {
    this.abort(new DeadlineExceededError(`${this.service}.${this.method}`));
  }
}

const REPORTS_AT_ONCE = 1_000;
const REPORT_EVERY_MS = 1_000;
const NO_METADATA: Metadata = Object.freeze({});

const NOTHING: AsyncIterable<unknown> = {
  async *[Symbol.asyncIterator]() {},
};
