/**
 * The id of the replication history that a server writes or follows. A master and its replicas share one. If the
 * target had the source's id, it would send the task its own writes, and each INCR would be applied without end.
 */
import { InvalidOptionError } from "@ropeway/core";
import type { ResolvedSyncOptions } from "./options.ts";
import type { Reply } from "./resp/reply-reader.ts";
import type { Source } from "./source/source.ts";
import { encodeCommand } from "./wire/encode.ts";

/** Reads the id from INFO; undefined if the server does not report it (before Redis 4, or refused). */
export function historyId(info: Reply | undefined): string | undefined {
  if (!Buffer.isBuffer(info)) return undefined;
  return /^master_replid:([0-9a-f]{40})/m.exec(info.toString())?.[1];
}

/** The ids in INFO: of the current history, and of the one before the last failover. */
export function historyIds(info: Reply | undefined): string[] {
  if (!Buffer.isBuffer(info)) return [];
  const ids = [...info.toString().matchAll(/^master_replid2?:([0-9a-f]{40})/gm)];
  return ids.map(([, id]) => id as string).filter((id) => !/^0+$/.test(id));
}

/** Throws InvalidOptionError if a source has the target's history. */
export async function refuseSameServer(
  sources: readonly Source[],
  target: string | undefined,
  options: ResolvedSyncOptions,
): Promise<void> {
  const { mode, dbMap, rename, transform } = options;
  // A snapshot alone does not come back, and may be written to other keys of its server.
  const elsewhere = dbMap !== undefined || rename !== undefined || transform !== undefined;
  if (target === undefined || (mode === "stock" && elsewhere)) return;
  for (const source of sources) {
    // attach() reports a source that cannot be reached.
    await using connection = await source.connect()?.catch(() => undefined);
    if (connection === undefined) continue;
    const [info] = await connection.exchange(encodeCommand(["INFO", "replication"]), 1);
    if (historyId(info) !== target) continue;
    throw new InvalidOptionError(
      "to",
      connection.where,
      "another server than the source, and neither its master nor its replica",
    );
  }
}
