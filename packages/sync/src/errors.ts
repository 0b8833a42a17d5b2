/** Every error of sync. */
import { RopewayError } from "@ropeway/core";
import { reasonOf, show } from "@ropeway/core/internal";

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

/** The RDB ends before its end marker. */
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

/** The unsupported part of an RDB. */
export interface UnsupportedRdb {
  readonly offset: number;
  readonly what: "version" | "opcode" | "type" | "encoding";
  readonly id: number;
  readonly family: string;
  readonly reason: string;
}

/** This release cannot read the version, a type or an opcode of the RDB. */
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

/** One element is larger than the reader's memory limit. */
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

/** The source refuses PSYNC, because of an ACL, a provider or a proxy. */
export class PsyncRefusedError extends RopewayError {
  constructor(where: string, reply: string) {
    super(
      "PSYNC_REFUSED",
      `${where} refused PSYNC: ${reply}. Grant the user +psync +replconf, or read the source with scan: true`,
      { details: { where, reply } },
    );
  }
}

const FILE_REASONS: Readonly<Record<string, string>> = {
  ENOENT: "no such file",
  ENOTDIR: "no such file",
  EACCES: "this user may not read it",
  EISDIR: "it is a folder",
};

/** The source file cannot be read. */
export class SourceFileError extends RopewayError {
  constructor(path: string, cause: unknown) {
    const { code = "", message = String(cause) } = cause as NodeJS.ErrnoException;
    super("SOURCE_FILE", `cannot read ${path}: ${FILE_REASONS[code] ?? message}`, {
      cause,
      details: { path },
    });
  }
}

const WRITE_REASONS: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full. Free some space",
  EDQUOT: "the user's share of the disk is full. Free some space",
  ENOENT: "the folder does not exist. Create it",
  ENOTDIR: "the folder does not exist. Create it",
  EACCES: "this user may not write it. Change its permissions, or write another file",
  EROFS: "the disk is read-only. Write another file",
  EISDIR: "it is a folder. Write another file",
};

/** The target file cannot be written. */
export class TargetFileError extends RopewayError {
  constructor(path: string, cause: unknown) {
    const { code = "", message = String(cause) } = cause as NodeJS.ErrnoException;
    const reason = WRITE_REASONS[code] ?? `${message}. Repair the disk`;
    super("TARGET_FILE", `cannot write ${path}: ${reason}, then start the task again`, {
      cause,
      details: { path },
    });
  }
}

/** The source cannot serve PSYNC at this moment: it is loading, or has lost its own master. */
export class SourceNotReadyError extends RopewayError {
  constructor(where: string, reply: string) {
    super("SOURCE_NOT_READY", `${where} is not ready for PSYNC: ${reply}`, {
      details: { where, reply },
    });
  }
}

/** The source no longer has the history after the checkpoint, and `onResync` is "stop". */
export class ResyncRequiredError extends RopewayError {
  constructor(where: string, offset: number) {
    super(
      "RESYNC_REQUIRED",
      `${where} no longer has the changes after offset ${offset}, so a full synchronisation is required. Raise repl-backlog-size at the source, and start again with onResync: "full" (--restart)`,
      { details: { where, offset } },
    );
  }

  /** The last offset that the target has. */
  get offset(): number {
    return this.details.offset as number;
  }
}

/** The spool cannot be written or read. */
export class SpoolError extends RopewayError {
  constructor(problem: string, cause: unknown) {
    super(
      "SPOOL",
      `the spool failed: ${problem}${cause === undefined ? "" : `: ${reasonOf(cause)}`}`,
      {
        cause,
        details: { problem },
      },
    );
  }
}

/** The target kept refusing writes: it is out of memory, read-only, or cannot persist. */
export class TargetRefusedError extends RopewayError {
  constructor(where: string, reply: string, waitedMs: number) {
    super(
      "TARGET_REFUSED",
      `${where} refused writes${waitedMs > 0 ? ` for ${waitedMs} ms` : ""}: ${reply.replace(/\.$/, "")}. ${adviceFor(reply)} Then start the task again; it resumes from its checkpoint`,
      { details: { where, reply, waitedMs } },
    );
  }
}

/** The target lost confirmed writes: it restarted from an older file, or a replica without them was promoted. */
export class TargetRewoundError extends RopewayError {
  constructor(where: string, expected: string, found: string | undefined) {
    super(
      "TARGET_REWOUND",
      `${where} lost confirmed writes: its checkpoint was at ${expected} and is at ${found ?? "nothing"} now`,
      { details: { where, expected, found } },
    );
  }
}

/** More keys or commands failed at the target than `maxErrors` allows. */
export class TooManyErrorsError extends RopewayError {
  constructor(count: number, maxErrors: number, first: string) {
    super(
      "TOO_MANY_ERRORS",
      `${count} writes failed, but maxErrors is ${maxErrors}. The first: ${first}`,
      { details: { count, maxErrors, first } },
    );
  }
}

/** The target has a key that the task would overwrite, and `existing` is "fail". */
export class KeyExistsError extends RopewayError {
  constructor(key: string, db: number) {
    super(
      "KEY_EXISTS",
      `the key ${show(key)} exists in database ${db} of the target. Choose existing: "replace" or "keep", or empty the target`,
      { details: { key, db } },
    );
  }
}

/** The options do not allow a command of the source, such as FLUSHALL with policy "stop". */
export class CommandRefusedError extends RopewayError {
  constructor(command: string, reason: string) {
    super("COMMAND_REFUSED", `the source sent ${command}: ${reason}`, {
      details: { command, reason },
    });
  }
}

/** The transform function of the user failed. */
export class TransformError extends RopewayError {
  constructor(write: { command: string; key: string }, problem: string, cause: unknown) {
    const { command, key } = write;
    super(
      "TRANSFORM_FAILED",
      `the transform function failed for ${command} ${show(key)}: ${problem}. It must return true, false, or a list of commands`,
      { cause, details: { command, key, problem } },
    );
  }
}

function adviceFor(reply: string): string {
  if (/NOPERM/.test(reply))
    return "Grant the user all data commands, watch, multi, exec and restore.";
  if (/OOM/.test(reply)) return "Raise maxmemory at the target or free memory.";
  if (/READONLY/.test(reply)) return "Write to a master, not to a replica.";
  if (/MISCONF/.test(reply))
    return "Make the target able to save, or set stop-writes-on-bgsave-error no.";
  if (/NOREPLICAS/.test(reply))
    return "Attach replicas to the target, or set min-replicas-to-write 0.";
  if (/closes the connection/.test(reply))
    return "Raise proto-max-bulk-len and client-query-buffer-limit at the target, or the limits of a proxy before it.";
  return "Repair the target.";
}

/** The source was asked to continue, but started a full synchronisation. */
export class HistoryLostError extends RopewayError {
  constructor(where: string, offset: number) {
    super("HISTORY_LOST", `${where} no longer has the changes after offset ${offset}`, {
      details: { where, offset },
    });
  }
}
