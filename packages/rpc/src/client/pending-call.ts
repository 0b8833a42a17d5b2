/** A call that waits for its response, or for its deadline, whichever comes first. */
import type { WheelTimer } from "../timer-wheel.ts";
import type { IncomingResponse, Progress } from "../wire/dialect.ts";
import type { Route } from "./route.ts";

/** Receives the messages that come in under an id. */
export interface Receiver {
  readonly id: string;
  /** The counter in its id; 0 for the table to read it. */
  number: number;
  readonly route: Route;
  /** When it was sent; by performance.now(). */
  readonly sentAt: number;
  /** Whether its deadline is watched by CommonDeadline and not by an entry of its own. */
  readonly sharesDeadline: boolean;
  /** When its documented key is read although its response should come in the reply list. */
  nextPollAt: number;
  /** Whether it can still be answered under its documented key, and nobody watches that. */
  readonly polled: boolean;
  /** A message of the reply list, parsed; `at` is when it came. */
  receive(message: Readonly<Record<string, unknown>>, at: number): void;
  /** Nothing will come any more. */
  fail(error: unknown): void;
  /** Its push had an unknown outcome. */
  onUnsure(error: unknown): void;
  /** Messages popped for it may have been lost; whether the worker has to be asked for them again. */
  onGap(): boolean;
  /** Its deadline has passed. */
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
  /** Calls a listener with a progress report; an error that it throws is reported, and stops nothing. */
  progress(
    report: Readonly<Record<string, unknown>>,
    listener: ((progress: Progress) => void) | undefined,
  ): void;
}

/** Turns what came in for a typed call into what its caller gets. */
export interface ResultReader {
  /** The value of the call's promise, or a promise of it. What this throws, the call is rejected with. */
  value(result: unknown): unknown;
  /** The reason of the call's rejection. */
  reason(error: unknown): unknown;
}

/** What only some calls have. */
export interface PendingExtras {
  /** Its push is made again if the outcome is unknown: an unknown outcome is a failure. */
  readonly failsOnLoss?: boolean;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Whether its documented keys are watched. */
  watched?: boolean;
  /** Called once, when the call is answered, expired or cancelled. */
  onSettled?: () => void;
}

/** How a call begins to wait. */
export interface PendingCallOptions {
  /** Undefined: the short id with its number. */
  readonly id?: string | undefined;
  /** The counter in its id; 0 for the table to read it. */
  readonly number: number;
  /** Now, by performance.now(). */
  readonly at: number;
  readonly timeoutMs: number;
  readonly sharesDeadline: boolean;
  readonly reader?: ResultReader | undefined;
}

/** Shared by all calls without any extras, and therefore never written to. */
const PLAIN: PendingExtras = Object.freeze({});
const IGNORE = (): void => {};

/** One unary call. */
export class PendingCall implements Receiver {
  number: number;
  readonly route: Route;
  readonly sentAt: number;
  readonly timeoutMs: number;
  readonly sharesDeadline: boolean;
  /** Its deadline, if it shares none. */
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

  /** Most calls are answered before anybody asks for it. */
  get id(): string {
    this.#id ??= this.#host.idOf(this.number);
    return this.#id;
  }

  get polled(): boolean {
    return this.extras.watched !== true;
  }

  /** How the call's promise is settled. */
  settles(resolve: (value: unknown) => void, reject: (reason: unknown) => void): void {
    this.#resolve = resolve;
    this.#reject = reject;
  }

  receive(message: Readonly<Record<string, unknown>>, at: number): void {
    if (message.progress !== undefined) {
      const report = message.progress as Record<string, unknown>;
      // The last one only says that there is no more.
      if (report.end !== true) this.#host.progress(report, this.extras.onProgress);
      return;
    }
    const response = this.#host.decode(message);
    if (response === undefined) return; // something this version does not know
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

  /** Read here and not in a promise behind the call's own, which would cost every call another one. */
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
    // It may have arrived, and then its response will come; its deadline decides if not.
    if (this.extras.failsOnLoss === true) this.fail(error);
  }

  onGap(): boolean {
    return this.polled;
  }

  due(): void {
    this.#host.expired(this);
  }
}
