/** The keys of a snapshot as JSON lines, under the names and databases that the options give them. */
import { JsonLines } from "../inspect/json-lines.ts";
import { isOwnKey } from "../keys.ts";
import { RdbReader } from "../rdb/reader.ts";
import type { SnapshotCopy } from "../sink/sink.ts";

/** Reads the snapshot. The line of a large value comes in pieces. */
export async function* keyLines(
  plan: Parameters<SnapshotCopy>[1] & { readonly bigBytes: number },
): AsyncGenerator<string, void> {
  const { snapshot, signal, counters, mapping, bigBytes } = plan;
  const reader = new RdbReader({ maxRawBytes: bigBytes });
  const lines = new JsonLines();
  let wanted = true;
  for (;;) {
    const chunk = await snapshot.read(signal);
    if (chunk === undefined) break;
    counters.snapshotBytes += chunk.length;
    counters.totalSnapshotBytes = snapshot.bytes;
    reader.push(chunk);
    for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
      if (entry.kind === "key" || entry.kind === "begin") {
        const db = mapping.db(entry.db);
        wanted = db !== undefined && mapping.copies(entry.key);
        if (wanted) {
          counters.keys += 1;
          yield* lines.pieces(entry, { db: db as number, key: mapping.key(entry.key) });
        } else counters.count(isOwnKey(entry.key) ? "own" : "filtered");
      } else if (entry.kind === "part" || entry.kind === "end") {
        if (wanted) yield* lines.pieces(entry);
      } else if (entry.kind === "function") yield* lines.pieces(entry);
      else if (entry.kind === "resize") counters.totalKeys = (counters.totalKeys ?? 0) + entry.keys;
    }
  }
  reader.end();
}
