/** Every error of sync. */
import { RopewayError } from "@ropeway/core";
import { show } from "@ropeway/core/internal";

/** The bytes of an RDB file or DUMP payload contradict the format. */
export class RdbFormatError extends RopewayError {
  constructor(offset: number, problem: string) {
    super("RDB_FORMAT", `the RDB is malformed at byte ${offset}: ${problem}`, {
      details: { offset, problem },
    });
  }

  /** The byte at which the reader stopped, counted from the start of the file or payload. */
  get offset(): number {
    return this.details.offset as number;
  }
}

/** The RDB ends in the middle. */
export class RdbTruncatedError extends RopewayError {
  constructor(offset: number) {
    super("RDB_TRUNCATED", `the RDB ends at byte ${offset}, before its EOF opcode`, {
      details: { offset },
    });
  }

  /** How many bytes the RDB has. */
  get offset(): number {
    return this.details.offset as number;
  }
}

/** The CRC64 at the end of an RDB file does not match its bytes. */
export class RdbChecksumError extends RopewayError {
  constructor(offset: number, expected: string, computed: string) {
    super(
      "RDB_CHECKSUM",
      `the RDB's checksum at byte ${offset} is ${expected}, but its bytes give ${computed}`,
      { details: { offset, expected, computed } },
    );
  }
}

/** What UnsupportedRdbError names. */
export interface UnsupportedRdb {
  readonly offset: number;
  readonly what: "version" | "opcode" | "type" | "encoding";
  readonly id: number;
  readonly family: string;
  readonly reason: string;
}

/** The RDB is of a version, or has a type or opcode, that this release cannot read. */
export class UnsupportedRdbError extends RopewayError {
  constructor({ offset, what, id, family, reason }: UnsupportedRdb) {
    super(
      "RDB_UNSUPPORTED",
      `RDB ${what} ${id} (${family}) at byte ${offset} is not supported: ${reason}`,
      { details: { offset, what, id, family, reason } },
    );
  }

  /** The byte at which the reader stopped. */
  get offset(): number {
    return this.details.offset as number;
  }

  /** The number of the version, opcode, type or encoding. */
  get id(): number {
    return this.details.id as number;
  }
}

/** One element is larger than the reader may hold in memory. */
export class ElementTooLargeError extends RopewayError {
  constructor(offset: number, bytes: number, maxElementBytes: number) {
    super(
      "ELEMENT_TOO_LARGE",
      `the element at byte ${offset} has ${bytes} bytes, but maxElementBytes is ${maxElementBytes}: raise maxElementBytes to read it`,
      { details: { offset, bytes, maxElementBytes } },
    );
  }
}

/** A DUMP payload is too short, or its checksum does not match. */
export class DumpPayloadError extends RopewayError {
  constructor(problem: string) {
    super("DUMP_PAYLOAD", `the DUMP payload is invalid: ${problem}`, { details: { problem } });
  }
}

/** The bytes of a connection or an AOF file are not RESP. */
export class RespFormatError extends RopewayError {
  constructor(offset: number, problem: string) {
    super("RESP_FORMAT", `not RESP at byte ${offset}: ${problem}`, {
      details: { offset, problem },
    });
  }

  /** The byte at which the reader stopped, counted from the first byte it was given. */
  get offset(): number {
    return this.details.offset as number;
  }
}

/** An AOF file or manifest is malformed or truncated. */
export class AofFormatError extends RopewayError {
  constructor(file: string, offset: number, problem: string) {
    super("AOF_FORMAT", `${file} is malformed at byte ${offset}: ${problem}`, {
      details: { file, offset, problem },
    });
  }
}

/** The value cannot be written with commands the target knows. */
export class NotExpressibleError extends RopewayError {
  constructor(type: string, reason: string) {
    super("NOT_EXPRESSIBLE", `a value of type ${show(type)} cannot be written: ${reason}`, {
      details: { type, reason },
    });
  }
}
