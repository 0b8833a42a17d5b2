/** How the message of a call reaches the workers: by the service's request list, or through a session. */
import type { SessionMark } from "../wire/dialect.ts";
import type { Exchange } from "./exchange.ts";
import type { Route } from "./route.ts";

/** A message on its way. */
export interface Outgoing {
  readonly id: string;
  readonly route: Route;
  readonly timeoutMs: number;
  /** When it is outdated; by performance.now(). */
  readonly until: number;
  /** As it stands in its list; a session that moves it changes both. */
  text: string;
  list: string;
  /** Whether it should still be run. */
  wanted: boolean;
  /** Fail at once if no worker can take it. */
  readonly whenDown: "queue" | "fail";
}

/** One way to the workers. */
export interface Placement {
  /** What the message says about its session; its epoch is filled in on the way. */
  readonly mark: SessionMark | undefined;
  /** Resolves when Redis has the message. */
  place(message: Outgoing): Promise<void>;
  /** The message was answered, or is not wanted any more. */
  release(message: Outgoing): void;
}

/** By the request list of the service. */
export class RequestPlacement implements Placement {
  readonly mark: undefined;
  readonly #exchange: Exchange;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  async place(message: Outgoing): Promise<void> {
    await this.#exchange.deliver(message);
    // It was cancelled while it was being pushed.
    if (!message.wanted) await this.#exchange.withdrawals.cancel(message);
  }

  release(): void {}
}
