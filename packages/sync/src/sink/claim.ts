/** Claims a task's checkpoint for a new run. */
import { LeaseLostError, ServerReplyError } from "@ropeway/core";
import { type Checkpoint, checkpointFields, parseCheckpoint } from "../checkpoint.ts";
import { TargetRefusedError } from "../errors.ts";
import type { Connection } from "../wire/connection.ts";

/** The checkpoint to claim. */
export interface Claim {
  readonly connection: Connection;
  readonly task: string;
  /** The key of the checkpoint. */
  readonly key: string;
  /** The epoch of the run, if the caller chose it. @default the last one plus 1 */
  readonly epoch: number | undefined;
  /** Whether the target is empty; called when there is no checkpoint yet. */
  isEmpty(): Promise<boolean>;
}

/**
 * Increments the epoch, so that earlier runs can no longer write. Returns the new checkpoint. Throws
 * LeaseLostError if the caller chose the epoch and a later run has claimed the task, and TargetRefusedError if
 * the target refuses writes.
 */
export async function claimCheckpoint(claim: Claim): Promise<Checkpoint> {
  const { connection, key, epoch, task } = claim;
  for (;;) {
    await connection.call("WATCH", key);
    const found = parseCheckpoint(await connection.call("HGETALL", key));
    if (epoch !== undefined && (found?.epoch ?? 0) > epoch) {
      throw new LeaseLostError(`sync task ${task}`, epoch);
    }
    const next = epoch ?? (found?.epoch ?? 0) + 1;
    const claimed: Checkpoint = {
      ...{ replid: "?", offset: -1, db: 0, phase: "load", ...found },
      owned: found?.owned ?? (await claim.isEmpty()),
      epoch: next,
      pass: found?.epoch === next ? (found.pass ?? 0) + 1 : 0,
    };
    await connection.call("MULTI");
    await connection.call("HMSET", key, ...checkpointFields(claimed)).catch((error) => {
      if (!(error instanceof ServerReplyError)) throw error;
      throw new TargetRefusedError(connection.where, (error.cause as Error).message, 0);
    });
    if ((await connection.call("EXEC")) !== null) return claimed;
  }
}
