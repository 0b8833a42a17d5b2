/** The interface that clients and sessions share. */
import type { CallOptions, StreamOptions, SubmitOptions } from "../options.ts";
import type { MethodTable, Service } from "../service/service.ts";
import type { ServiceErrors } from "../service/service-error.ts";
import type { ServiceClient } from "../service/typed-client.ts";

/** One call of a batch. */
export interface BatchItem {
  readonly target: string;
  readonly params?: unknown;
  readonly options?: CallOptions;
}

/** The input of a duplex call besides its params. */
export interface DuplexInput {
  /** The items for the worker. */
  readonly outgoing: AsyncIterable<unknown>;
  readonly options?: StreamOptions | undefined;
}

/** Makes calls: a client, or a session of one. */
export interface Caller {
  /** Calls a method and waits for its result. A plain call runs at most once. */
  call(target: string, params?: unknown, options?: CallOptions): Promise<unknown>;
  /** Makes several calls at once. Each settles on its own, in the given order. */
  batch(items: readonly BatchItem[]): Promise<PromiseSettledResult<unknown>[]>;
  /** Sends a call that gets no response. Resolves when Redis has it. */
  notify(target: string, params?: unknown, options?: SubmitOptions): Promise<void>;
  /** Sends a call whose response is fetched later with poll(), maybe by another process. */
  submit(target: string, params?: unknown, options?: SubmitOptions): Promise<string>;
  /** Calls a method that responds with a stream; leaving the loop cancels it. */
  stream(target: string, params?: unknown, options?: StreamOptions): AsyncIterableIterator<unknown>;
  /** Calls a method with a stream of input that responds with a stream. */
  duplex(target: string, params: unknown, input: DuplexInput): AsyncIterableIterator<unknown>;
  /** The service as an object of typed functions. */
  service<M extends MethodTable, E extends ServiceErrors>(service: Service<M, E>): ServiceClient<M>;
}
