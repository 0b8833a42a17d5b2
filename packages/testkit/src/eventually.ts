import { setTimeout as sleep } from "node:timers/promises";
import { TestkitError } from "./errors.ts";

/** How long `eventually` keeps trying. */
export interface EventuallyOptions {
  /** Give up after this long. @default 20000 */
  readonly withinMs?: number;
  /** Longest pause between two attempts; the first pauses are shorter. @default 50 */
  readonly everyMs?: number;
}

/**
 * Repeats `attempt` until it neither throws nor rejects, and returns its value. When the bound is
 * over, the last failure is the `cause` and its message is part of ours. One attempt always runs
 * to its end: bound what you await inside.
 */
export async function eventually<T>(
  attempt: () => T | Promise<T>,
  { withinMs = 20_000, everyMs = 50 }: EventuallyOptions = {},
): Promise<T> {
  const deadline = performance.now() + withinMs;
  let pauseMs = 1;
  for (;;) {
    try {
      return await attempt();
    } catch (cause) {
      if (performance.now() + pauseMs >= deadline) {
        const last = cause instanceof Error ? cause.message : String(cause);
        throw new TestkitError("GAVE_UP", `not so within ${withinMs} ms: ${last}`, { cause });
      }
    }
    await sleep(pauseMs);
    pauseMs = Math.min(pauseMs * 2, everyMs);
  }
}
