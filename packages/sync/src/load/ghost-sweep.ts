/**
 * Deletes keys of the target that a repeated full synchronisation did not contain. An earlier run copied them,
 * and the source deleted them while no task followed it. Without the sweep they would stay
 * forever.
 *
 * It runs after the load and before the first command of the stream, when the target should hold exactly
 * the snapshot. Only databases and names that the task writes to are examined.
 */
import type { StreamNote } from "../apply/applier.ts";
import { isOwnKey } from "../keys.ts";
import type { TargetReader } from "../sink/sink.ts";
import { Transaction } from "../sink/transaction.ts";
import type { SeenKeys } from "./seen-keys.ts";

/** Which keys are swept. */
export interface SweepOptions {
  readonly reader: TargetReader;
  readonly seen: SeenKeys;
  readonly unlink: boolean;
  readonly signal: AbortSignal;
  /** Whether the task may have written this key. */
  covers(db: number, key: Buffer): boolean;
  commit(transaction: Transaction<StreamNote>): Promise<void>;
}

const PAGE = 1_000;

/** Deletes the keys that the snapshot did not have. Resolves with their number. */
export async function sweep(options: SweepOptions): Promise<number> {
  let swept = 0;
  for await (const { db, keys } of options.reader.pages(PAGE)) {
    if (options.signal.aborted) break;
    swept += await remove(options, db, keys);
  }
  return swept;
}

async function remove(
  { seen, covers, unlink, commit }: SweepOptions,
  db: number,
  keys: readonly Buffer[],
): Promise<number> {
  const ghosts = keys.filter((key) => !isOwnKey(key) && covers(db, key) && !seen.has(db, key));
  if (ghosts.length === 0) return 0;
  const transaction = new Transaction<StreamNote>();
  transaction.select(db);
  for (const key of ghosts) {
    const argv = [Buffer.from(unlink ? "UNLINK" : "DEL"), key];
    transaction.command(argv, { argv, db });
  }
  await commit(transaction);
  return ghosts.length;
}
