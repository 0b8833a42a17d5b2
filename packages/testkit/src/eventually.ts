import { setTimeout as sleep } from "node:timers/promises";
import { TestkitError } from "./errors.ts";

/** The limits of `eventually`. */
export interface EventuallyOptions {
  /** The time limit. @default 20000 */
  readonly withinMs?: number;
  /** Longest pause between two attempts; the first pauses are shorter. @default 50 */
  readonly everyMs?: number;
}

/**
 * Repeats `attempt` until it neither throws nor rejects, and returns its value. After the time limit
 * it throws with the last failure as `cause` and in the message. It does not interrupt a running
 * attempt, so every wait inside needs a limit of its own.
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
        throw new TestkitError("GAVE_UP", `timed out after ${withinMs} ms: ${last}`, { cause });
      }
    }
    await sleep(pauseMs);
    pauseMs = Math.min(pauseMs * 2, everyMs);
  }
}
