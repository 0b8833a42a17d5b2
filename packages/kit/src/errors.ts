/** Errors that several parts of the kit share. */
import { RopewayError } from "@ropeway/core";

/** A lock or a permit was not acquired in time: others hold it, or Redis did not reply. */
export class NotAcquiredError extends RopewayError {
  constructor(what: string, waitMs: number) {
    const why = "others hold it, or Redis does not reply";
    super("NOT_ACQUIRED", `${what} was not acquired within ${waitMs} ms: ${why}`, {
      details: { what, waitMs },
    });
  }
}
