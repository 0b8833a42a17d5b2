/** The HTTP handler for a Dispatcher, put together from its parts. */
import { InvalidOptionError, localClock } from "@ropeway/core";
import {
  flag,
  integer,
  milliseconds,
  type OptionTable,
  optional,
  resolveOptions,
  satisfying,
} from "@ropeway/core/internal";
import { AddressGuard, type Resolver } from "./address-guard.ts";
import { Courier } from "./courier.ts";
import { Dispatcher } from "./dispatcher.ts";
import type { DispatcherOptions } from "./dispatcher-options.ts";
import { EndpointHealth } from "./endpoint-health.ts";
import type { MergeQueue } from "./queue.ts";
import { Sender } from "./sender.ts";
import { signingKey } from "./signature.ts";

/** How batches are sent. */
export interface HttpDeliveryOptions {
  /**
   * What may be called besides public addresses: addresses, networks, host names, "loopback",
   * "private". @default nothing
   */
  readonly targets?: readonly string[];
  /** Refuses plain http. @default false */
  readonly httpsOnly?: boolean;
  /** Standard Webhooks keys (whsec_...); each signs. @default none */
  readonly signingKeys?: readonly string[];
  /** How long one request may take, answer included. @default 15000 */
  readonly timeoutMs?: number;
  /** Bytes of an answer that are read. @default 65536 */
  readonly maxResponseBytes?: number;
  /** Failures in a row that open an origin's circuit breaker. @default 10 */
  readonly breakerThreshold?: number;
  /** How long it is open at first; each failed probe doubles it. @default 5000 */
  readonly breakerOpenMs?: number;
  /** The longest it is open. @default 300000 */
  readonly breakerMaxOpenMs?: number;
  /** Finds the addresses of a name. @default the system's resolver */
  readonly resolver?: Resolver | undefined;
}

export const deliveryOptions: OptionTable<HttpDeliveryOptions> = {
  targets: { default: [], rule: satisfying("a list of texts", isTexts) },
  httpsOnly: { default: false, rule: flag },
  signingKeys: { default: [], rule: satisfying("a list of whsec_... keys", isTexts) },
  timeoutMs: { default: 15_000, rule: milliseconds(1) },
  maxResponseBytes: { default: 65_536, rule: integer(0) },
  breakerThreshold: { default: 10, rule: integer(1) },
  breakerOpenMs: { default: 5_000, rule: integer(1) },
  breakerMaxOpenMs: { default: 300_000, rule: integer(1) },
  resolver: {
    default: undefined,
    rule: optional(satisfying("a function", (value) => typeof value === "function")),
  },
};

/** A dispatcher that delivers over HTTP, and what it needs for that. */
export class HttpDispatcher implements AsyncDisposable {
  /** What may be called; the HTTP service asks it too. */
  readonly guard: AddressGuard;
  readonly #sender: Sender;
  readonly #health: EndpointHealth;
  #dispatcher: Dispatcher | undefined;
  #closed: Promise<void> | undefined;

  private constructor(guard: AddressGuard, sender: Sender, health: EndpointHealth) {
    this.guard = guard;
    this.#sender = sender;
    this.#health = health;
  }

  /** Starts to fire what is due in the queue. */
  static async start(
    queue: MergeQueue,
    options: HttpDeliveryOptions = {},
    dispatching: DispatcherOptions = {},
  ): Promise<HttpDispatcher> {
    const chosen = resolveOptions(deliveryOptions, options);
    const { timeoutMs, httpsOnly, maxResponseBytes } = chosen;
    const leaseMs = dispatching.leaseMs ?? 30_000;
    if (leaseMs < timeoutMs + 1_000) {
      const allowed = `at least a second shorter than leaseMs, ${leaseMs}`;
      throw new InvalidOptionError("timeoutMs", timeoutMs, allowed);
    }
    const guard = new AddressGuard(chosen.targets, chosen.resolver);
    const signingKeys = chosen.signingKeys.map(signingKey);
    const sender = new Sender({ guard, maxResponseBytes });
    const health = new EndpointHealth(queue.redis, queue.keys, {
      threshold: chosen.breakerThreshold,
      openMs: chosen.breakerOpenMs,
      maxOpenMs: chosen.breakerMaxOpenMs,
    });
    const clock = localClock; // the receiver compares the timestamp with its own wall clock
    const courier = new Courier({ sender, health, clock, signingKeys, timeoutMs, httpsOnly });
    const whole = new HttpDispatcher(guard, sender, health);
    try {
      const handler = courier.deliver.bind(courier);
      whole.#dispatcher = await Dispatcher.start(queue, handler, dispatching);
      return whole;
    } catch (error) {
      await whole.close();
      throw error;
    }
  }

  /** Lets the running deliveries end (bounded) and closes the connections to the receivers. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    await this.#dispatcher?.close();
    this.#sender.close();
    await this.#health.close();
  }
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}
