/** A described service as an object of functions: types, validation and retries from its description. */
import { InvalidParamsError } from "../errors.ts";
import type { CallOptions } from "../options.ts";
import type { StreamOptions } from "../stream/stream-call.ts";
import type { InputOf } from "./schema.ts";
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

/** What a caller can do with one method. */
export type Method<D extends MethodDefinition> = D["kind"] extends "stream"
  ? (...args: InputThen<D, StreamOptions>) => AsyncIterableIterator<CallerOutput<D>>
  : D["kind"] extends "duplex"
    ? (
        input: CallerInput<D>,
        outgoing: AsyncIterable<InputOf<D["incoming"]>>,
        options?: StreamOptions,
      ) => AsyncIterableIterator<CallerOutput<D>>
    : (...args: InputThen<D, CallOptions>) => Promise<CallerOutput<D>>;

/** Options follow the input; a method without one takes `undefined`, or nothing. */
type InputThen<D extends MethodDefinition, Options> =
  undefined extends CallerInput<D>
    ? [input?: CallerInput<D>, options?: Options]
    : [input: CallerInput<D>, options?: Options];

/** A service's methods, ready to be called. */
export type ServiceClient<M extends MethodTable> = { readonly [K in keyof M]: Method<M[K]> };

/** How the typed calls reach the wire: a client, or a session. */
export interface Caller {
  call(method: string, params: unknown, options: CallOptions): Promise<unknown>;
  stream(method: string, params: unknown, options: StreamOptions): AsyncIterableIterator<unknown>;
  duplex(
    method: string,
    params: unknown,
    more: { readonly outgoing: AsyncIterable<unknown>; readonly options: StreamOptions },
  ): AsyncIterableIterator<unknown>;
}

/** Builds the functions. */
export function typedClient<M extends MethodTable>(
  service: Service<M>,
  caller: Caller,
): ServiceClient<M> {
  const methods = Object.entries(service.methods as MethodTable).map(([name, definition]) => [
    name,
    methodOf(name, definition, caller),
  ]);
  return Object.fromEntries(methods) as ServiceClient<M>;
}

function methodOf(name: string, definition: MethodDefinition, caller: Caller): unknown {
  const { input, output, kind, idempotent } = definition;
  const refuse = (why: string, issues: unknown) => new InvalidParamsError(name, why, issues);
  if (kind === "stream") {
    return (value?: unknown, options: StreamOptions = {}) =>
      checkedItems(name, output, async () => {
        await validate(input, value, refuse);
        return caller.stream(name, toParams(value), options);
      });
  }
  if (kind === "duplex") {
    return (value: unknown, outgoing: AsyncIterable<unknown>, options: StreamOptions = {}) =>
      checkedItems(name, output, async () => {
        await validate(input, value, refuse);
        return caller.duplex(name, toParams(value), { outgoing, options });
      });
  }
  return async (value?: unknown, options: CallOptions = {}) => {
    await validate(input, value, refuse);
    const result = await caller.call(name, toParams(value), { idempotent, ...options });
    return readOutput(name, output, result);
  };
}

/** Starts at the first `next()`; leaving the loop cancels the stream. */
async function* checkedItems(
  name: string,
  output: MethodDefinition["output"],
  open: () => Promise<AsyncIterableIterator<unknown>>,
): AsyncGenerator<unknown> {
  for await (const item of await open()) yield await readOutput(name, output, item);
}
