/**
 * Finds the offset at which the history of a source departs from the history that the target has.
 *
 *   old master   ....... w w w | p p p        a deposed master still sent these: pings, hellos of Sentinels
 *   new master   ....... w w w | W W W        after its promotion, under a new replication id
 *                              fork
 *
 * A promoted replica continues the old history only up to the fork, and replies to a PSYNC after it with a full
 * synchronisation. If nothing after the fork was written to the target, the stream is continued at the fork.
 */
import { ServerReplyError } from "@ropeway/core";
import type { Position } from "../checkpoint.ts";
import type { Connection } from "../wire/connection.ts";

/** The last byte that the source shares with the target's history, if it is before the position. */
export async function forkBefore(
  connection: Connection,
  { replid, offset }: Position,
): Promise<number | undefined> {
  const info = await replicationInfo(connection);
  const field = (name: string) => new RegExp(`^${name}:(\\S+)`, "m").exec(info)?.[1];
  if (field("master_replid") === replid || field("master_replid2") !== replid) return undefined;
  const last = Number(field("second_repl_offset")) - 1;
  return offset > last ? last : undefined;
}

/** Empty if an ACL forbids INFO; then PSYNC alone decides. */
async function replicationInfo(connection: Connection): Promise<string> {
  try {
    return String(await connection.call("INFO", "replication"));
  } catch (error) {
    if (error instanceof ServerReplyError) return "";
    throw error;
  }
}

/** The source is a promoted replica that does not have the last bytes that the task received. */
export class HistoryForkedError extends Error {
  /** The last byte that both have. */
  readonly offset: number;

  constructor(offset: number) {
    super(`the source continues another history after offset ${offset}`);
    this.offset = offset;
  }
}
