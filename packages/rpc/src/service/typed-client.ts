/** A service as an object of functions, with types, validation and retries from its definition. */

import type { InputOf } from "@ropeway/core";
import type { CallPath, TypedRoute } from "../client/call-path.ts";
import type { ResultReader } from "../client/pending-call.ts";
import { InvalidParamsError } from "../errors.ts";
import { type CallOptions, checkOptions, type StreamOptions, streamTable } from "../options.ts";
import { AbortableStream } from "../stream/abortable-stream.ts";
import {
  type CallerInput,
  type CallerOutput,
  type MethodDefinition,
  type MethodTable,
  readOutput,
  type Service,
  toParams,
  validate,
} from "./service.ts";
import { reviveServiceError, type ServiceErrors } from "./service-error.ts";

/** A method as a function for its caller. */
export type Method<D extends MethodDefinition> = D["kind"] extends "stream"
  ? (...args: InputThen<D, StreamOptions>) => AsyncIterableIterator<CallerOutput<D>>
  : D["kind"] extends "duplex"
    ? (
        input: CallerInput<D>,
        outgoing: AsyncIterable<InputOf<D["incoming"]>>,
        options?: StreamOptions,
      ) => AsyncIterableIterator<CallerOutput<D>>
    : (...args: InputThen<D, CallOptions>) => Promise<CallerOutput<D>>;

/** Options follow the input. A method without input takes `undefined`, or nothing. */
export type InputThen<D extends MethodDefinition, Options> =
  undefined extends CallerInput<D>
    ? [input?: CallerInput<D>, options?: Options]
    : [input: CallerInput<D>, options?: Options];

/** A service's methods as functions. */
export type ServiceClient<M extends MethodTable> = { readonly [K in keyof M]: Method<M[K]> };

/** Creates the functions. Each method's route is looked up once, here. */
export function typedClient<M extends MethodTable>(
  service: Service<M, ServiceErrors>,
  path: CallPath | (() => Promise<CallPath>),
): ServiceClient<M> {
  const methods = Object.entries(service.methods as MethodTable).map(([name, definition]) => [
    name,
    new TypedMethod(service, name, { definition, path }).caller(),
  ]);
  return Object.fromEntries(methods) as ServiceClient<M>;
}

interface StreamInput {
  readonly options?: StreamOptions | undefined;
  readonly outgoing?: AsyncIterable<unknown>;
}

class TypedMethod {
  readonly #service: Service<MethodTable, ServiceErrors>;
  readonly #name: string;
  readonly #definition: MethodDefinition;
  readonly #refuse: (why: string, issues: unknown) => Error;
  readonly #reader: ResultReader;
  readonly #open: () => Promise<CallPath>;
  #path: CallPath | undefined;
  #route: TypedRoute | undefined;

  constructor(
    service: Service<MethodTable, ServiceErrors>,
    name: string,
    more: {
      readonly definition: MethodDefinition;
      readonly path: CallPath | (() => Promise<CallPath>);
    },
  ) {
    this.#service = service;
    this.#name = name;
    this.#definition = more.definition;
    this.#refuse = (why, issues) => new InvalidParamsError(name, why, issues);
    const { output } = more.definition;
    this.#reader = {
      value: (result) => readOutput(name, output, result),
      reason: (error) => reviveServiceError(service.errors, error),
    };
    const { path } = more;
    if (typeof path !== "function") this.#bind(path);
    this.#open = async () => (typeof path === "function" ? path() : path);
  }

  caller(): unknown {
    const { kind } = this.#definition;
    if (kind === "stream") {
      return (input?: unknown, options?: StreamOptions) => this.#stream(input, { options });
    }
    if (kind === "duplex") {
      return (input: unknown, outgoing: AsyncIterable<unknown>, options?: StreamOptions) =>
        this.#stream(input, { options, outgoing });
    }
    const plain = this.#definition.idempotent !== true;
    return (input?: unknown, options?: CallOptions) =>
      this.#call(input, plain ? options : { idempotent: true, ...options });
  }

  /** Without an additional promise if the schemas are synchronous. */
  #call(input: unknown, options: CallOptions | undefined): Promise<unknown> {
    try {
      const checked = validate(this.#definition.input, input, this.#refuse);
      const path = this.#path;
      if (checked instanceof Promise || path === undefined) {
        return this.#callLater(checked, input, options);
      }
      return path.callTyped(this.#route as TypedRoute, toParams(input), options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async #callLater(
    checked: unknown,
    input: unknown,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    await checked;
    const path = this.#path ?? this.#bind(await this.#open());
    return path.callTyped(this.#route as TypedRoute, toParams(input), options);
  }

  /** Starts at the first `next()`; leaving the loop cancels the stream. */
  #stream(input: unknown, more: StreamInput): AsyncIterableIterator<unknown> {
    if (more.options !== undefined) checkOptions(streamTable, more.options);
    const items = (signal: AbortSignal) =>
      this.#items(input, { ...more, options: { ...more.options, signal } });
    return new AbortableStream(items, more.options?.signal);
  }

  async *#items(input: unknown, more: StreamInput): AsyncGenerator<unknown> {
    await validate(this.#definition.input, input, this.#refuse);
    const path = this.#path ?? this.#bind(await this.#open());
    try {
      const { route } = this.#route as TypedRoute;
      for await (const item of path.stream(route, toParams(input), more)) {
        yield await readOutput(this.#name, this.#definition.output, item);
      }
    } catch (error) {
      throw this.#reader.reason(error);
    }
  }

  #bind(path: CallPath): CallPath {
    this.#path = path;
    const route = path.router.routeOf({ service: this.#service.name, method: this.#name });
    this.#route = { route, reader: this.#reader };
    return path;
  }
}
