/**
 * Handles commands that the server refused. Some refusals are temporary: a master without enough replicas
 * (NOREPLICAS) or with a full disk (MISCONF) accepts writes again a moment later, and a server
 * without memory (OOM) does so when its lists are drained. Nothing was written, so a write can be repeated.
 */
import { isReply, OutOfMemoryError, WrongKeyTypeError } from "@ropeway/core";
import { sleep } from "@ropeway/core/internal";

const PASSING = ["NOREPLICAS", "MISCONF", "OOM"] as const;
const PAUSE_MS = 100;

/** Whether the server refused a write that it may accept a moment later. */
export function isPassing(error: unknown): boolean {
  return PASSING.some((prefix) => isReply(error, prefix));
}

/** A server's refusal as the typed error for the caller. */
export function explain(error: unknown, key: string): unknown {
  if (isReply(error, "WRONGTYPE")) return new WrongKeyTypeError(key, error);
  if (isReply(error, "OOM")) return new OutOfMemoryError(`the key ${JSON.stringify(key)}`, error);
  return error;
}

/** Repeats a write while the server refuses it, for at most `withinMs`. */
export async function insist<T>(write: () => Promise<T>, withinMs: number): Promise<T> {
  const until = performance.now() + withinMs;
  for (;;) {
    try {
      return await write();
    } catch (error) {
      if (!isPassing(error) || performance.now() + PAUSE_MS > until) throw error;
    }
    await sleep(PAUSE_MS);
  }
}
