/**
 * Calls to an etcd cluster: the member to ask, timeouts, authentication, and the meaning of failures.
 *
 *   call -> channel of the present member --- response
 *             |  UNAVAILABLE, deadline, no connection: the next member, if the call may be repeated
 *             |  token unknown or too old: log in again and repeat (etcd did nothing)
 *
 * A request that never left may always be repeated. One that left may be repeated only if doing it twice
 * is harmless; otherwise the caller gets an error with `maybeApplied`.
 */
import { type Logger, ServerTooOldError } from "@ropeway/core";
import { StoreRefusedError, StoreUnavailableError } from "../../errors.ts";
import { Channel, type GrpcListener, type GrpcStream, type StoreTls } from "./channel.ts";
import { GrpcError, Status } from "./grpc-error.ts";
import { AuthenticateRequest, AuthenticateResponse } from "./messages.ts";
import type { Message, Sparse } from "./protobuf.ts";

/** Where and how to connect. */
export interface TransportPlan {
  /** Such as http://10.0.0.1:2379; at least one. */
  readonly endpoints: readonly string[];
  readonly tls?: StoreTls | undefined;
  readonly user?: { readonly name: string; readonly password: string } | undefined;
  /** How long one member may take to respond. */
  readonly tryMs: number;
  /** How long a call may take over all members. */
  readonly timeoutMs: number;
  readonly logger: Logger;
}

/** A method of etcd's API. */
export interface Method<Q, R> {
  readonly path: string;
  readonly request: Message<Q>;
  readonly response: Message<R>;
  /** Making the call twice does no harm. */
  readonly repeatable: boolean;
  /** How long one member may take to respond, if that is less than for other calls. */
  readonly tryMs?: number;
}

const LOGIN_PATH = "/etcdserverpb.Auth/Authenticate";
/** A member cut off from the others ends streams with this, instead of keeping them silent. */
const NEEDS_LEADER = { hasleader: "true" };

/** The calls of one store. */
export class Transport {
  readonly where: string;
  readonly #plan: TransportPlan;
  /** Every connection that is not closed yet, retired ones too. */
  readonly #channels = new Set<Channel>();
  #channel: Channel | undefined;
  #member = 0;
  #token: Promise<string> | undefined;
  #closed = false;

  constructor(plan: TransportPlan) {
    this.#plan = plan;
    this.where = plan.endpoints.join(",");
  }

  /** One request, one response. */
  async call<Q, R>(method: Method<Q, R>, request: Sparse<Q>): Promise<R> {
    const bytes = method.request.encode(request);
    const tryMs = Math.min(this.#plan.tryMs, method.tryMs ?? this.#plan.tryMs);
    const { path, repeatable } = method;
    const response = await this.#attempts(path, repeatable, async (channel) =>
      channel.unary({ path, metadata: await this.#metadata(channel) }, bytes, tryMs),
    );
    return method.response.decode(response);
  }

  /** Opens a stream to some member; throws StoreUnavailableError if none takes it. */
  async stream(path: string, listener: GrpcListener): Promise<GrpcStream> {
    return this.#attempts(path, true, async (channel) => {
      await channel.opened(this.#plan.tryMs);
      const metadata = { ...(await this.#metadata(channel)), ...NEEDS_LEADER };
      return channel.stream({ path, metadata }, listener);
    });
  }

  /** A stream ended because the token is too old: the next one logs in again. */
  forgetToken(): void {
    this.#token = undefined;
  }

  /** Uses the next member from now on, unless another call has already switched. */
  #leave(channel: Channel | undefined): void {
    if (channel === undefined || channel !== this.#channel) return;
    channel.retire();
    this.#channel = undefined;
    this.#member = (this.#member + 1) % this.#plan.endpoints.length;
  }

  close(): void {
    this.#closed = true;
    for (const channel of this.#channels) channel.close();
  }

  async #attempts<T>(
    path: string,
    repeatable: boolean,
    attempt: (channel: Channel) => Promise<T>,
  ): Promise<T> {
    const until = performance.now() + this.#plan.timeoutMs;
    let logins = 0;
    for (let tries = 1; ; tries++) {
      let channel: Channel | undefined;
      try {
        channel = this.#open();
        return await attempt(channel);
      } catch (error) {
        if (!(error instanceof GrpcError)) throw error;
        if (error.needsLogin && this.#plan.user !== undefined && logins++ === 0) {
          this.#token = undefined;
          continue;
        }
        if (!error.transient || this.#closed) throw this.#explain(path, error, repeatable);
        this.#leave(channel);
        const again = (repeatable || !error.sent) && performance.now() < until;
        if (!again) throw this.#explain(path, error, repeatable);
        if (tries % this.#plan.endpoints.length === 0) await pause(Math.min(50 * tries, 500));
      }
    }
  }

  #open(): Channel {
    if (this.#closed) throw new GrpcError(Status.unavailable, "the store is closed", false);
    if (this.#channel?.usable) return this.#channel;
    const { endpoints, tls } = this.#plan;
    const channel = new Channel(endpoints[this.#member] as string, tls);
    this.#channel = channel;
    this.#channels.add(channel);
    channel.onClosed(() => this.#channels.delete(channel));
    return channel;
  }

  async #metadata(channel: Channel): Promise<Record<string, string>> {
    const { user } = this.#plan;
    if (user === undefined) return {};
    this.#token ??= this.#login(channel, user);
    const token = this.#token;
    try {
      return { token: await token };
    } catch (error) {
      if (this.#token === token) this.#token = undefined;
      throw error;
    }
  }

  async #login(channel: Channel, user: { name: string; password: string }): Promise<string> {
    const bytes = AuthenticateRequest.encode(user);
    const plan = { path: LOGIN_PATH, metadata: {} };
    const response = await channel.unary(plan, bytes, this.#plan.tryMs);
    return AuthenticateResponse.decode(response).token;
  }

  #explain(path: string, error: GrpcError, repeatable: boolean): Error {
    if (error.transient) {
      return new StoreUnavailableError(this.where, error.sent && !repeatable, error);
    }
    if (error.status === 12)
      return new ServerTooOldError(this.where, `without ${path}`, "etcd 3.4");
    return new StoreRefusedError(this.where, error.message, error.status);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
