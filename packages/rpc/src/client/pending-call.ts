/** A call that waits for its response, or for its deadline, whichever comes first. */
import type { WheelTimer } from "../timer-wheel.ts";
import type { IncomingResponse, Progress } from "../wire/dialect.ts";
import type { Route } from "./route.ts";

/** Receives the messages for an id. */
export interface Receiver {
  readonly id: string;
  /** The counter in its id; with 0, the table reads it from the id. */
  number: number;
  readonly route: Route;
  /** When it was sent; by performance.now(). */
  readonly sentAt: number;
  /** Whether CommonDeadline watches its deadline, and not its own timer. */
  readonly sharesDeadline: boolean;
  /** When its documented key is read again although its response should come in the reply list; 0 if never read. */
  nextPollAt: number;
  /** Whether its response can still come under its documented key, which is not watched. */
  readonly polled: boolean;
  /** Receives a parsed message of the reply list; `at` is the time of its arrival. */
  receive(message: Readonly<Record<string, unknown>>, at: number): void;
  /** Called when no more messages will come. */
  fail(error: unknown): void;
  /** Called when its push had an unknown outcome. */
  onUnsure(error: unknown): void;
  /** Called when messages for it may have been lost. Returns whether to request them again from the worker. */
  onGap(): boolean;
  /** Called when its deadline has passed. */
  due(): void;
}

/** What a pending call needs from its client. */
export interface PendingHost {
  /** The short id with this counter. */
  idOf(number: number): string;
  answered(call: PendingCall): void;
  expired(call: PendingCall): void;
  decode(message: Readonly<Record<string, unknown>>): IncomingResponse | undefined;
  failure(error: unknown): unknown;
  /** Calls a listener with a progress report. An error of the listener is reported and has no other effect. */
  progress(
    report: Readonly<Record<string, unknown>>,
    listener: ((progress: Progress) => void) | undefined,
  ): void;
}

/** Converts the response of a typed call for its caller. */
export interface ResultReader {
  /** The value of the call's promise, or a promise of it. If this throws, the call is rejected with the error. */
  value(result: unknown): unknown;
  /** The reason of the call's rejection. */
  reason(error: unknown): unknown;
}

/** Fields that only some calls have. */
export interface PendingExtras {
  /** The push is repeated by its caller, so an unknown outcome counts as a failure. */
  readonly failsOnLoss?: boolean;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Whether its documented keys are watched. */
  watched?: boolean;
  /** Called once, when the call got its response, expired or was cancelled. */
  onSettled?: () => void;
}

/** The options of a pending call. */
export interface PendingCallOptions {
  /** Undefined for the short id with its number. */
  readonly id?: string | undefined;
  /** The counter in its id; with 0, the table reads it from the id. */
  readonly number: number;
  /** Now, by performance.now(). */
  readonly at: number;
  readonly timeoutMs: number;
  readonly sharesDeadline: boolean;
  readonly reader?: ResultReader | undefined;
}

/** Shared by all calls without extras, and therefore never modified. */
const PLAIN: PendingExtras = Object.freeze({});
const IGNORE = (): void => {};

/** One unary call. */
export class PendingCall implements Receiver {
  number: number;
  readonly route: Route;
  readonly sentAt: number;
  readonly timeoutMs: number;
  readonly sharesDeadline: boolean;
  /** Its own deadline, if it does not share one. */
  timer: WheelTimer | undefined = undefined;
  nextPollAt = 0;
  extras: PendingExtras = PLAIN;
  readonly #host: PendingHost;
  #id: string | undefined;
  readonly #reader: ResultReader | undefined;
  #resolve: (value: unknown) => void = IGNORE;
  #reject: (reason: unknown) => void = IGNORE;

  constructor(host: PendingHost, route: Route, call: PendingCallOptions) {
    this.#host = host;
    this.route = route;
    this.#id = call.id;
    this.number = call.number;
    this.sentAt = call.at;
    this.timeoutMs = call.timeoutMs;
    this.sharesDeadline = call.sharesDeadline;
    this.#reader = call.reader;
  }

  /** Created on demand, because most calls get their response before it is needed. */
  get id(): string {
    this.#id ??= this.#host.idOf(this.number);
    return this.#id;
  }

  get polled(): boolean {
    return this.extras.watched !== true;
  }

  /** Sets the functions that settle the call's promise. */
  settles(resolve: (value: unknown) => void, reject: (reason: unknown) => void): void {
    this.#resolve = resolve;
    this.#reject = reject;
  }

  receive(message: Readonly<Record<string, unknown>>, at: number): void {
    if (message.progress !== undefined) {
      const report = message.progress as Record<string, unknown>;
      // The last report only marks the end.
      if (report.end !== true) this.#host.progress(report, this.extras.onProgress);
      return;
    }
    const response = this.#host.decode(message);
    if (response === undefined) return; // a message that this version does not know
    this.#host.answered(this);
    const failed = response.error !== undefined;
    this.route.record(at - this.sentAt, failed, at);
    if (failed) this.#refuse(this.#host.failure(response.error));
    else this.#succeed(response.result);
  }

  fail(error: unknown): void {
    this.#host.answered(this);
    const at = performance.now();
    this.route.record(at - this.sentAt, true, at);
    this.#refuse(error);
  }

  /** Read here and not in a chained promise, which would cost every call another one. */
  #succeed(result: unknown): void {
    if (this.#reader === undefined) {
      this.#resolve(result);
      return;
    }
    try {
      this.#resolve(this.#reader.value(result));
    } catch (error) {
      this.#reject(error);
    }
  }

  #refuse(error: unknown): void {
    this.#reject(this.#reader === undefined ? error : this.#reader.reason(error));
  }

  onUnsure(error: unknown): void {
    // The call may have arrived, and then its response will come; otherwise its deadline ends it.
    if (this.extras.failsOnLoss === true) this.fail(error);
  }

  /** Also for a response under its documented key, which was removed there when it was read. */
  onGap(): boolean {
    return true;
  }

  due(): void {
    this.#host.expired(this);
  }
}
