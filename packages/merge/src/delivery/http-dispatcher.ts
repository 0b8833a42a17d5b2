/** A dispatcher whose handler calls endpoints over HTTP, assembled from its parts. */

import { InvalidOptionError, localClock } from "@ropeway/core";
import {
  BackgroundRole,
  flag,
  integer,
  milliseconds,
  type Opening,
  type OptionTable,
  optional,
  resolveOptions,
  satisfying,
} from "@ropeway/core/internal";
import type { Batch, MergeQueue } from "../queue/queue.ts";
import { requireQueue } from "../queue/require-queue.ts";
import { Scheduler } from "../schedule/scheduler.ts";
import { AttemptStore } from "../store/attempt-store.ts";
import { EndpointStore } from "../store/endpoint-store.ts";
import { AddressGuard, type Resolver } from "./address-guard.ts";
import { AttemptLog } from "./attempt-log.ts";
import { Callbacks } from "./callbacks.ts";
import { Dispatcher, type DispatcherEvents } from "./dispatcher.ts";
import { type DispatcherOptions, dispatcherOptions } from "./dispatcher-options.ts";
import { EndpointHealth } from "./endpoint-health.ts";
import { HttpHandler } from "./http-handler.ts";
import { HttpSender } from "./http-sender.ts";
import { signingKey } from "./signature.ts";

/** The circuit breaker of an origin. */
export interface BreakerOptions {
  /** Failures in a row that open it. @default 10 */
  readonly threshold?: number;
  /** How long it is open at first; each failed probe doubles it. @default 5000 */
  readonly openMs?: number;
  /** The maximum time that it is open. @default 300000 */
  readonly maxOpenMs?: number;
}

/** The options of an HttpDispatcher. */
export interface HttpDispatcherOptions extends DispatcherOptions {
  /**
   * Addresses that may be called besides public ones: addresses, networks, host names, "loopback",
   * "private". @default none
   */
  readonly allow?: readonly string[];
  /** Refuses plain http. @default false */
  readonly httpsOnly?: boolean;
  /** Standard Webhooks keys (whsec_...) for endpoints without their own secrets; each signs. @default none */
  readonly signingKeys?: readonly string[];
  /** How long one request may take, response included; a push can ask for less. @default 15000 */
  readonly timeoutMs?: number;
  /** How long connecting may take. @default 5000 */
  readonly connectTimeoutMs?: number;
  /** The maximum number of bytes read of a response. @default 65536 */
  readonly maxResponseBytes?: number;
  /** The circuit breaker of each origin. */
  readonly breaker?: BreakerOptions;
  /** Finds the addresses of a name. @default the system's resolver */
  readonly resolver?: Resolver | undefined;
}

const breakerOptions: OptionTable<BreakerOptions> = {
  threshold: { default: 10, rule: integer(1) },
  openMs: { default: 5_000, rule: integer(1, 86_400_000) },
  maxOpenMs: { default: 300_000, rule: integer(1, 86_400_000) },
};

type DeliveryOptions = Omit<HttpDispatcherOptions, keyof DispatcherOptions>;

export const deliveryOptions: OptionTable<DeliveryOptions> = {
  allow: { default: [], rule: satisfying("a list of strings", isStrings) },
  httpsOnly: { default: false, rule: flag },
  signingKeys: { default: [], rule: satisfying("a list of whsec_... keys", isStrings) },
  timeoutMs: { default: 15_000, rule: milliseconds(1) },
  connectTimeoutMs: { default: 5_000, rule: milliseconds(1) },
  maxResponseBytes: { default: 65_536, rule: integer(0, 16_777_216) },
  breaker: {
    default: { threshold: 10, openMs: 5_000, maxOpenMs: 300_000 },
    rule: satisfying("an object with threshold, openMs and maxOpenMs", isObject),
  },
  resolver: {
    default: undefined,
    rule: optional(satisfying("a function", (value) => typeof value === "function")),
  },
};

const allOptions: OptionTable<HttpDispatcherOptions> = { ...dispatcherOptions, ...deliveryOptions };

/** Delivers due batches to their endpoints over HTTP, and pushes the runs of schedules, until it is closed. */
export class HttpDispatcher extends BackgroundRole<DispatcherEvents> {
  readonly #queue: MergeQueue;
  readonly #options: Required<HttpDispatcherOptions>;
  readonly #breaker: Required<BreakerOptions>;
  readonly #signingKeys: readonly Buffer[];
  readonly #guard: AddressGuard;
  #dispatcher: Dispatcher | undefined;
  #scheduler: Scheduler | undefined;

  constructor(queue: MergeQueue, options?: HttpDispatcherOptions) {
    requireQueue(queue);
    super("the HTTP dispatcher", queue.redis.logger);
    this.#queue = queue;
    this.#options = resolveOptions(allOptions, options);
    this.#breaker = resolveOptions(breakerOptions, this.#options.breaker);
    const { timeoutMs, leaseMs, allow, resolver, signingKeys } = this.#options;
    if (leaseMs < timeoutMs + 1_000) {
      const allowed = `at least a second shorter than leaseMs, ${leaseMs}`;
      throw new InvalidOptionError("timeoutMs", timeoutMs, allowed);
    }
    this.#signingKeys = signingKeys.map(signingKey);
    this.#guard = new AddressGuard(allow, resolver);
  }

  /** How many batches are being delivered. */
  get active(): number {
    return this.#dispatcher?.active ?? 0;
  }

  protected async open({ defer }: Opening): Promise<void> {
    const { redis, keys } = this.#queue;
    const { logger } = redis;
    const { timeoutMs, httpsOnly, maxResponseBytes, connectTimeoutMs, leaseMs } = this.#options;
    const { attempts } = this.#options;
    const guard = this.#guard;
    const sender = new HttpSender({ guard, maxResponseBytes, connectTimeoutMs });
    defer(() => sender.close());
    const store = new EndpointStore(redis, keys);
    const breaker = this.#breaker;
    const error = (thrown: unknown) => this.report(thrown);
    const given = { breaker, forgetMs: leaseMs, logger, error };
    const health = new EndpointHealth(store, given).start();
    defer(() => health.close());
    const log = new AttemptLog(new AttemptStore(redis, keys), logger).start();
    defer(() => log.close());
    const callbacks = new Callbacks(this.#queue);
    const handler = new HttpHandler({
      ...{ sender, health, log, callbacks, timeoutMs, attempts, httpsOnly },
      signingKeys: this.#signingKeys,
      clock: localClock, // the endpoint compares the timestamp with its own wall clock
      error,
    });
    this.#dispatcher = await this.#dispatch(handler, callbacks, defer);
    this.#scheduler = new Scheduler(this.#queue).on("error", (error) => this.report(error));
    defer(() => this.#scheduler?.close());
    if (this.held) await this.#scheduler.pause();
    await this.#scheduler.start();
  }

  protected override async hold(): Promise<void> {
    await Promise.all([this.#dispatcher?.pause(), this.#scheduler?.pause()]);
  }

  protected override async release(): Promise<void> {
    await Promise.all([this.#dispatcher?.resume(), this.#scheduler?.resume()]);
  }

  async #dispatch(
    handler: HttpHandler,
    callbacks: Callbacks,
    defer: Opening["defer"],
  ): Promise<Dispatcher> {
    const names = Object.keys(dispatcherOptions) as (keyof DispatcherOptions)[];
    const options = Object.fromEntries(names.map((name) => [name, this.#options[name]]));
    const dispatcher = new Dispatcher(
      this.#queue,
      (batch, handling) => handler.deliver(batch, handling),
      { ...options, beforeDead: (batch, reason) => this.#beforeDead(callbacks, batch, reason) },
    );
    dispatcher.on("delivered", (batch) => this.emit("delivered", batch));
    dispatcher.on("failed", (batch, failure) => this.emit("failed", batch, failure));
    dispatcher.on("dead", (batch, death) => this.emit("dead", batch, death));
    dispatcher.on("error", (error) => this.report(error));
    defer(() => dispatcher.close());
    if (this.held) await dispatcher.pause();
    return dispatcher.start();
  }

  async #beforeDead(callbacks: Callbacks, batch: Batch, reason: string): Promise<void> {
    await callbacks.dead(batch, reason);
    await this.#options.beforeDead?.(batch, reason);
  }
}

function isStrings(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
