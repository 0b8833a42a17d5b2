/** How the message of a call reaches the workers: by the service's request list, or through a session. */
import type { SessionMark } from "../wire/dialect.ts";
import type { Exchange } from "./exchange.ts";
import type { Route } from "./route.ts";

/** A message that is being sent. */
export interface Outgoing {
  readonly id: string;
  readonly route: Route;
  readonly timeoutMs: number;
  /** When it becomes outdated; by performance.now(). */
  readonly until: number;
  /** Its text in its list. A session that moves it changes both. */
  text: string;
  list: string;
  /** Whether it should still be run. */
  wanted: boolean;
  /** Whether to fail at once if no worker is alive. */
  readonly whenDown: "queue" | "fail";
}

/** Sends messages to the workers. */
export interface Placement {
  /** The session of the message. Its epoch is filled in when it is pushed. */
  readonly mark: SessionMark | undefined;
  /** Resolves when Redis has the message. */
  place(message: Outgoing): Promise<void>;
  /** Called when the message got its response, or is no longer wanted. */
  release(message: Outgoing): void;
}

/** Uses the request list of the service. */
export class RequestPlacement implements Placement {
  readonly mark: undefined;
  readonly #exchange: Exchange;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  async place(message: Outgoing): Promise<void> {
    await this.#exchange.deliver(message);
    // The message was cancelled while it was being pushed.
    if (!message.wanted) await this.#exchange.withdrawals.cancel(message);
  }

  release(): void {}
}
