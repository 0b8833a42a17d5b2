/**
 * The progress of a task, stored in the target and written in the same transaction as the data:
 *
 *   epoch    the run of the task that may write; each start increments it, and older runs are refused
 *   phase    load: a full synchronisation began and has not ended; stream: the data is complete up to
 *            `offset`; done: a stock task has ended
 *   replid   the history of the source, and the last byte of it that the target has
 *   offset
 *   written  the end of the last command that changed the target; between it and `offset` nothing did
 *   db       the source database of the next command, because no SELECT is sent again after a resume
 *   pass     clusters: which load or stream of this epoch it is; see cluster-sink.ts
 *   mark     names the last transaction that moved the checkpoint: its offset, and a random part if it was
 *            not one of the stream
 *   owned    1: the target was empty when the task began, so the task wrote everything in it
 *
 * Because data and checkpoint commit together, INCR, LPUSH and APPEND are applied exactly once: a run that
 * was killed left both or neither.
 */
import type { Reply } from "./resp/reply-reader.ts";

/** How far a task has copied its data. */
export type Phase = "load" | "stream" | "done";

/** A position in a replication history. */
export interface Position {
  readonly replid: string;
  /** The last byte that was applied. */
  readonly offset: number;
  readonly db: number;
  /** The end of the last command that changed the target. @default the offset */
  readonly written?: number;
}

/** The content of a checkpoint key. */
export interface Checkpoint extends Position {
  readonly epoch: number;
  readonly phase: Phase;
  readonly owned: boolean;
  /** Which load or stream of this epoch it is. @default 0 */
  readonly pass?: number;
  /** The mark of the last transaction, as the claim found it. */
  readonly mark?: string | undefined;
}

/** The words of HMSET. Always all fields, because a FLUSHALL in the batch has removed the earlier ones. */
export function checkpointFields(checkpoint: Checkpoint, mark?: string): string[] {
  const { epoch, phase, owned, replid, offset, db, written = offset, pass = 0 } = checkpoint;
  return [
    ...["epoch", String(epoch), "phase", phase, "owned", owned ? "1" : "0"],
    ...["replid", replid, "offset", String(offset), "db", String(db)],
    ...["written", String(written), "pass", String(pass)],
    ...(mark === undefined ? [] : ["mark", mark]),
  ];
}

/** Reads the reply of HGETALL; undefined if there is no checkpoint. */
export function parseCheckpoint(reply: Reply): Checkpoint | undefined {
  if (!Array.isArray(reply) || reply.length === 0) return undefined;
  const fields = new Map<string, string>();
  for (let i = 0; i + 1 < reply.length; i += 2) fields.set(String(reply[i]), String(reply[i + 1]));
  const phase = fields.get("phase");
  return {
    epoch: Number(fields.get("epoch") ?? 0),
    phase: phase === "stream" || phase === "done" ? phase : "load",
    replid: fields.get("replid") ?? "?",
    offset: Number(fields.get("offset") ?? -1),
    db: Number(fields.get("db") ?? 0),
    owned: fields.get("owned") === "1",
    pass: Number(fields.get("pass") ?? 0),
    mark: fields.get("mark"),
    ...(fields.has("written") ? { written: Number(fields.get("written")) } : {}),
  };
}
