/**
 * Calls that stick to one node of a group. The map from session to node is in Redis, so all callers
 * of a session, in any process, agree on the node.
 *
 *   call --> stick.lua: mapped, alive and serving? --yes--> pushed into that node's list
 *                          |no
 *                        the first live candidate (least loaded, then random) becomes the node,
 *                        the epoch grows, the call is pushed there
 *
 * A call that waits in the list of a dead node is moved to the new node's list, if it is still
 * there. Otherwise the dead node had started it, and the call ends at its deadline.
 */
import { CallPath, type Gate } from "../client/call-path.ts";
import type { BatchItem, Caller, DuplexInput } from "../client/caller.ts";
import type { Exchange } from "../client/exchange.ts";
import type { Guard } from "../client/guard.ts";
import type { Interceptor } from "../client/interceptor.ts";
import type { Router } from "../client/router.ts";
import { DeadlineExceededError, UnavailableError } from "../errors.ts";
import type { SessionKeys } from "../keys.ts";
import type { CallOptions, StreamOptions, SubmitOptions } from "../options.ts";
import type { MethodTable, Service } from "../service/service.ts";
import type { ServiceErrors } from "../service/service-error.ts";
import { type ServiceClient, typedClient } from "../service/typed-client.ts";
import type { SessionName } from "../store/session-store.ts";
import { SessionPlacement } from "./session-placement.ts";

/** The options of a session. */
export interface SessionParts {
  readonly exchange: Exchange;
  readonly keys: SessionKeys;
  readonly name: SessionName;
  readonly router: Router;
  readonly guard: Guard;
  readonly interceptors: readonly Interceptor[];
  readonly gate: Gate;
}

const NO_NODE_PAUSE_MS = 100;

/** Calls that go to one node of a group, as long as that node is alive. Created by client.session(). */
export class Session implements Caller {
  readonly group: string;
  readonly client: string;
  readonly #placement: SessionPlacement;
  readonly #path: CallPath;
  readonly #timeoutMs: number;

  /** @internal Use client.session(). */
  constructor(parts: SessionParts) {
    const { exchange, keys, name, router, guard, interceptors, gate } = parts;
    this.group = name.group;
    this.client = name.client;
    this.#timeoutMs = exchange.options.timeoutMs;
    this.#placement = new SessionPlacement(exchange, keys, name);
    const placement = this.#placement;
    this.#path = new CallPath({ exchange, router, guard, interceptors, placement, gate });
  }

  /** The node that currently owns the session. Maps the session if it has no node. */
  async node(): Promise<string> {
    const until = performance.now() + this.#timeoutMs;
    for (;;) {
      const mapping = await this.#placement.map();
      if (mapping !== undefined) return mapping.node;
      if (this.#placement.failsWhenDown) throw new UnavailableError(this.group);
      if (performance.now() > until)
        throw new DeadlineExceededError("finding a node", this.#timeoutMs);
      await new Promise((resolve) => setTimeout(resolve, NO_NODE_PAUSE_MS));
    }
  }

  call(target: string, params: unknown = [], options?: CallOptions): Promise<unknown> {
    try {
      return this.#path.call(this.#path.router.route(target), params, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  batch(items: readonly BatchItem[]): Promise<PromiseSettledResult<unknown>[]> {
    return Promise.allSettled(
      items.map(({ target, params, options }) => this.call(target, params, options)),
    );
  }

  async notify(target: string, params: unknown = [], options?: SubmitOptions): Promise<void> {
    await this.#path.submit(this.#route(target), params, { options, notification: true });
  }

  async submit(target: string, params: unknown = [], options?: SubmitOptions): Promise<string> {
    return this.#path.submit(this.#route(target), params, { options, notification: false });
  }

  stream(
    target: string,
    params: unknown = [],
    options?: StreamOptions,
  ): AsyncIterableIterator<unknown> {
    return this.#path.stream(this.#route(target), params, { options });
  }

  duplex(target: string, params: unknown, input: DuplexInput): AsyncIterableIterator<unknown> {
    return this.#path.stream(this.#route(target), params, input);
  }

  service<M extends MethodTable, E extends ServiceErrors>(
    service: Service<M, E>,
  ): ServiceClient<M> {
    return typedClient(service as unknown as Service<M, ServiceErrors>, this.#path);
  }

  #route(target: string) {
    return this.#path.router.route(target);
  }
}
