/**
 * What a handler knows about the call it runs. Most handlers look at little of it, so everything that
 * costs something (the signal and its timer above all) is made when it is first asked for.
 */

import { CancelledError, DeadlineExceededError } from "../errors.ts";
import type { CallOptions } from "../options.ts";
import { type TimerWheel, WheelEntry } from "../timer-wheel.ts";
import type { IncomingCall } from "../wire/dialect.ts";

/** The session a call belongs to. */
export interface SessionInfo {
  readonly group: string;
  /** The caller's name for itself; undefined if it did not say. */
  readonly client: string | undefined;
  /** This node sees this session for the first time since it was mapped here. */
  readonly isNew: boolean;
  /** Grows each time the session gets another node: a fencing token. */
  readonly epoch: number | undefined;
}

/** Handed to every handler as its second argument. */
export interface CallContext {
  readonly id: string;
  readonly service: string;
  readonly method: string;
  /** This worker's node name. */
  readonly node: string;
  /** Aborts when the caller gives up, the deadline passes, the lease is lost or the server closes. */
  readonly signal: AbortSignal;
  /** ms of Redis time; undefined if the caller set none. */
  readonly deadline: number | undefined;
  /** ms left until the deadline; Infinity without one. */
  readonly remainingMs: number;
  readonly session: SessionInfo | undefined;
  /** Free for middleware to leave things for those behind it. */
  readonly meta: Record<string, unknown>;
  /** What a duplex caller sends; empty for other calls. */
  readonly incoming: AsyncIterable<unknown>;
  /** Reports progress from 0 to 1, if the caller asked for it. */
  progress(percent: number, message?: string): void;
  /** Calls another service within this call's deadline, cancelled along with it, in the same trace. */
  call(target: string, params?: unknown, options?: CallOptions): Promise<unknown>;
}

/** What a context needs from its server. */
export interface ContextHost {
  readonly node: string;
  readonly wheel: TimerWheel;
  now(): number;
  progress(call: IncomingCall, percent: number, message: string): void;
  nested(target: string, params: unknown, options: CallOptions): Promise<unknown>;
}

/** One running call. */
export class RunningCall extends WheelEntry implements CallContext {
  readonly service: string;
  readonly request: IncomingCall;
  readonly session: SessionInfo | undefined;
  readonly #host: ContextHost;
  #abort: AbortController | undefined;
  #reason: unknown;
  #meta: Record<string, unknown> | undefined;
  incoming: AsyncIterable<unknown> = NOTHING;

  constructor(
    host: ContextHost,
    call: IncomingCall,
    where: { readonly service: string; readonly session: SessionInfo | undefined },
  ) {
    super();
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

  get meta(): Record<string, unknown> {
    this.#meta ??= {};
    return this.#meta;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#reason !== undefined) this.#abort.abort(this.#reason);
      // A stream may run past its deadline, which only says by when it must have begun.
      else if (this.deadline !== undefined && this.request.window === undefined) {
        this.#host.wheel.set(this, Math.max(0, this.remainingMs));
      }
    }
    return this.#abort.signal;
  }

  /** Why the call was given up; undefined while it is not. */
  get aborted(): unknown {
    return this.#reason;
  }

  progress(percent: number, message: string = ""): void {
    if (this.request.track) this.#host.progress(this.request, percent, message);
  }

  call(target: string, params: unknown = [], options: CallOptions = {}): Promise<unknown> {
    const remaining = this.remainingMs;
    if (remaining <= 0) {
      return Promise.reject(new DeadlineExceededError(`the call of ${target}`, 0));
    }
    const bounded = Number.isFinite(remaining)
      ? { timeoutMs: Math.min(options.timeoutMs ?? remaining, remaining) }
      : {};
    return this.#host.nested(target, params, { signal: this.signal, ...options, ...bounded });
  }

  /** Aborts the handler's signal. */
  abort(reason: unknown = new CancelledError(`${this.service}.${this.method}`)): void {
    this.#reason ??= reason;
    this.#abort?.abort(this.#reason);
    this.#host.wheel.clear(this);
  }

  override due(): void {
    this.abort(new DeadlineExceededError(`${this.service}.${this.method}`));
  }

  /** The handler has ended. */
  finish(): void {
    if (this.after !== undefined) this.#host.wheel.clear(this);
  }
}

const NOTHING: AsyncIterable<unknown> = {
  async *[Symbol.asyncIterator]() {},
};
