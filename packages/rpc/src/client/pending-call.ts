/** A call that waits for its answer, or for its deadline, whichever comes first. */

import { WheelEntry } from "../timer-wheel.ts";
import type { IncomingAnswer, Progress } from "../wire/dialect.ts";
import type { Route } from "./route.ts";

/** Whoever answers for what comes in under an id. */
export interface Receiver {
  readonly id: string;
  /** The counter in its id; 0 for the receivers to read it. */
  number: number;
  readonly route: Route;
  /** A message of the reply list, parsed; `at` is when it came. */
  receive(message: Readonly<Record<string, unknown>>, at: number): void;
  /** Nothing will come any more. */
  fail(error: unknown): void;
  /** Messages popped for us may have been lost. */
  onGap(): void;
}

/** What a pending call needs from its client. */
export interface PendingHost {
  answered(call: PendingCall): void;
  expired(call: PendingCall): void;
  decode(message: Readonly<Record<string, unknown>>): IncomingAnswer | undefined;
  failure(error: unknown): unknown;
  progress(message: Readonly<Record<string, unknown>>): Progress;
}

/** Shared by all calls without any extras, and therefore never written to. */
const PLAIN: PendingExtras = Object.freeze({});
const IGNORE = (): void => {};

/** One unary call. */
export class PendingCall extends WheelEntry implements Receiver {
  readonly id: string;
  number = 0;
  readonly route: Route;
  readonly sentAt: number = performance.now();
  timeoutMs = 0;
  /** When its documented key is looked at although its answer should come in the reply list. */
  nextLookAt = 0;
  /** What most calls do not have. */
  extras: PendingExtras = PLAIN;
  readonly #host: PendingHost;
  #resolve: (value: unknown) => void = IGNORE;
  #reject: (reason: unknown) => void = IGNORE;

  constructor(host: PendingHost, route: Route, id: string) {
    super();
    this.#host = host;
    this.route = route;
    this.id = id;
  }

  /** How the call's promise is settled. */
  settles(resolve: (value: unknown) => void, reject: (reason: unknown) => void): void {
    this.#resolve = resolve;
    this.#reject = reject;
  }

  receive(message: Readonly<Record<string, unknown>>, at: number): void {
    if (message.progress !== undefined) {
      this.extras.onProgress?.(this.#host.progress(message.progress as Record<string, unknown>));
      return;
    }
    const answer = this.#host.decode(message);
    if (answer === undefined) return; // something this version does not know
    this.#host.answered(this);
    const failed = answer.error !== undefined;
    this.route.record(at - this.sentAt, failed);
    if (failed) this.#reject(this.#host.failure(answer.error));
    else this.#resolve(answer.result);
  }

  fail(error: unknown): void {
    this.#host.answered(this);
    this.route.record(performance.now() - this.sentAt, true);
    this.#reject(error);
  }

  onGap(): void {}

  override due(): void {
    this.#host.expired(this);
  }
}

/** What only some calls have. */
export interface PendingExtras {
  /** Its text, to take it out of the queue again. */
  text?: string;
  /** The list it waits in, if that is not the route's. */
  list?: string;
  /** A sending whose outcome is unknown counts as failed. */
  failsOnLoss?: boolean;
  /** The documented keys it is watched under. */
  responseKey?: string;
  progressKey?: string;
  onSettled?: () => void;
  onProgress?: ((progress: Progress) => void) | undefined;
}
