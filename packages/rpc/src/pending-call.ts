/** A call that waits for its answer, or for its deadline, whichever comes first. */
import type { IncomingAnswer, Progress } from "./dialect.ts";
import type { Route } from "./route.ts";
import { WheelEntry } from "./timer-wheel.ts";

/** Whoever answers for what comes in under an id. */
export interface Receiver {
  readonly id: string;
  readonly route: Route;
  /** A message of the reply list, parsed. */
  receive(message: Readonly<Record<string, unknown>>): void;
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

/** One unary call. */
export class PendingCall extends WheelEntry implements Receiver {
  readonly id: string;
  readonly route: Route;
  readonly sentAt: number;
  readonly timeoutMs: number;
  /** Its text, to take it out of the queue again, and the list if it is not the route's. */
  text = "";
  list: string | undefined;
  /** A sending whose outcome is unknown counts as failed. */
  failsOnLoss = false;
  /** The documented keys it is watched under, if it is. */
  responseKey: string | undefined;
  progressKey: string | undefined;
  /** When its documented key is looked at although its answer should come in the reply list. */
  nextLookAt = 0;
  onSettled: (() => void) | undefined;
  onProgress: ((progress: Progress) => void) | undefined;
  readonly #host: PendingHost;
  readonly #resolve: (value: unknown) => void;
  readonly #reject: (reason: unknown) => void;

  constructor(host: PendingHost, route: Route, settled: PendingSettled) {
    super();
    this.#host = host;
    this.route = route;
    this.id = settled.id;
    this.timeoutMs = settled.timeoutMs;
    this.sentAt = performance.now();
    this.#resolve = settled.resolve;
    this.#reject = settled.reject;
  }

  receive(message: Readonly<Record<string, unknown>>): void {
    if (message.progress !== undefined) {
      this.onProgress?.(this.#host.progress(message.progress as Record<string, unknown>));
      return;
    }
    const answer = this.#host.decode(message);
    if (answer === undefined) return; // something this version does not know
    this.#host.answered(this);
    const failed = "error" in answer;
    this.route.record(performance.now() - this.sentAt, failed);
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

/** How a pending call begins and ends. */
export interface PendingSettled {
  readonly id: string;
  readonly timeoutMs: number;
  resolve(value: unknown): void;
  reject(reason: unknown): void;
}
