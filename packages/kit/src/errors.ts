/** Errors that several parts of the kit share. */
import { RopewayError } from "@ropeway/core";

/** A lock or a permit did not become free in the time that the caller was ready to wait. */
export class NotAcquiredError extends RopewayError {
  constructor(what: string, waitMs: number) {
    super("NOT_ACQUIRED", `${what} was not acquired within ${waitMs} ms: others hold it`, {
      details: { what, waitMs },
    });
  }
}
