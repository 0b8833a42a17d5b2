/** A stream under breaker and bulkhead; an idempotent one is opened again if it breaks before its first item. */
import { pause } from "../client/cancellation.ts";
import type { Guard, GuardedCall } from "../client/guard.ts";
import type { Route } from "../client/route.ts";

/** The options of a guarded stream. */
export interface GuardedStreamOptions {
  readonly call: GuardedCall;
  /** Opens the stream, which has to start within `timeoutMs`. */
  open(timeoutMs: number): AsyncIterableIterator<unknown>;
}

const RETRY_PAUSE_MS = 50;

/** The items; leaving the loop cancels the stream. */
export async function* guardedStream(
  guard: Guard,
  route: Route,
  options: GuardedStreamOptions,
): AsyncGenerator<unknown> {
  const { call, open } = options;
  const until = performance.now() + call.timeoutMs;
  const leave = await guard.enter(route, call);
  let failure: unknown;
  try {
    for (let begun = false; ; ) {
      try {
        for await (const item of open(Math.max(1, until - performance.now()))) {
          begun = true;
          yield item;
        }
        return;
      } catch (error) {
        const late = begun || performance.now() >= until;
        if (late || !guard.mayRetry(error, call.idempotent)) throw error;
        await pause(RETRY_PAUSE_MS, call.signal);
      }
    }
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    leave(failure);
  }
}
