/** Lists of records in the target: writes that failed, and values that were written in parts. */
import type { Logger } from "@ropeway/core";
import { bigKeysKey, discardedKey } from "../keys.ts";
import type { Connection } from "../wire/connection.ts";

/** Each list keeps this many records. */
export const RECORDS = 10_000;

/** The list that a record belongs to. */
export type RecordKind = "discarded" | "bigkey";

/** Records to store. */
export interface Recording {
  readonly task: string;
  readonly kind: RecordKind;
  readonly entries: readonly object[];
  readonly logger: Logger;
  /** Opens a connection that works also while the run ends, because a run that fails has the most to record. */
  connect(): Promise<Connection>;
}

/** Adds records to their list. A failure is only logged. */
export async function storeRecords(recording: Recording): Promise<void> {
  const { task, kind, entries, logger } = recording;
  const key = kind === "discarded" ? discardedKey(task) : bigKeysKey(task);
  try {
    await using connection = await recording.connect();
    await connection.call("LPUSH", key, ...entries.map((entry) => JSON.stringify(entry)));
    await connection.call("LTRIM", key, 0, RECORDS - 1);
  } catch (error) {
    logger.warn({ err: error, kind, entries }, "records could not be written to the target");
  }
}
