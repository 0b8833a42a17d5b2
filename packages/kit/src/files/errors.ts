/** Errors of file distribution. */
import { RopewayError } from "@ropeway/core";

/** A chunk or a file does not have the SHA-256 that its sender computed, or the saved part of a file is gone. */
export class CorruptFileError extends RopewayError {
  constructor(name: string, what: string) {
    super("CORRUPT_FILE", `${what} of file ${JSON.stringify(name)} is not what its sender sent`, {
      details: { name, what },
    });
  }
}

/** The transfer, or this receiver's lease, ended before the receiver had everything; or its data is gone. */
export class TransferGoneError extends RopewayError {
  constructor(id: string, receiver?: string) {
    super(
      "TRANSFER_GONE",
      receiver === undefined
        ? `transfer ${JSON.stringify(id)} is not complete in Redis any more: its data was removed or expired`
        : `transfer ${JSON.stringify(id)} has no receiver ${JSON.stringify(receiver)} any more`,
      { details: { id, ...(receiver !== undefined && { receiver }) } },
    );
  }
}

/** The source of a transfer is not the file that was sent under its id before, or became shorter while it was sent. */
export class SourceChangedError extends RopewayError {
  constructor(id: string) {
    super(
      "SOURCE_CHANGED",
      `the source of transfer ${JSON.stringify(id)} is not what was sent before: give another file another id`,
      {
        details: { id },
      },
    );
  }
}
