/** A layer around the calls of a client. */
import type { StreamOptions, SubmitOptions } from "../options.ts";

/** A call as passed to an interceptor. Pass a changed copy to `next` to change it. */
export interface CallRequest {
  readonly kind: "call" | "notify" | "submit" | "stream" | "duplex";
  readonly service: string;
  readonly method: string;
  readonly params: unknown;
  readonly options: StreamOptions & SubmitOptions;
}

/**
 * Runs around every call of a client. `next` sends the call and resolves with the result of a unary call,
 * the ticket of a submitted one, and the items of a stream as an async iterable.
 */
export type Interceptor = (
  request: CallRequest,
  next: (request: CallRequest) => Promise<unknown>,
) => Promise<unknown>;

/** Runs the interceptors, the first added outermost, and then `last`. */
export function intercept(
  interceptors: readonly Interceptor[],
  request: CallRequest,
  last: (request: CallRequest) => Promise<unknown>,
): Promise<unknown> {
  const step = async (at: number, current: CallRequest): Promise<unknown> => {
    const layer = interceptors[at];
    return layer === undefined
      ? last(current)
      : layer(current, (next) => step(at + 1, next ?? current));
  };
  return step(0, request);
}
