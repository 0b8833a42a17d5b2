/** Replies by which Redis refuses a step, as typed errors. */
import { isReply, OutOfMemoryError, WrongKeyTypeError } from "@ropeway/core";

/** What a step is about: for messages. */
export interface Step {
  /** What there is no memory for: "a lock". */
  readonly what: string;
  /** The key that names the unit. */
  readonly key: string;
}

/** The outcome of a step; OOM and WRONGTYPE replies become OutOfMemoryError and WrongKeyTypeError. */
export async function refused<T>(step: Step, running: Promise<T>): Promise<T> {
  try {
    return await running;
  } catch (error) {
    if (isReply(error, "OOM")) throw new OutOfMemoryError(step.what, error);
    if (isReply(error, "WRONGTYPE")) throw new WrongKeyTypeError(step.key, error);
    throw error;
  }
}
