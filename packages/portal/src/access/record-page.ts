/** A page of the records below a prefix of the store, in the order of their keys. */
import type { Entry, Store } from "@ropeway/cluster";
import { decodeCursor, encodeCursor } from "@ropeway/cluster/internal";
import type { Page } from "@ropeway/core";

/** Which page. */
export interface PageRequest {
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
}

/** What the records are, and which of them to read. */
export interface RecordPageRequest<T> extends PageRequest {
  readonly prefix: string;
  /** The item in an entry; undefined to leave it out. */
  itemOf(entry: Entry): T | undefined;
}

/** Reads a page. Only the last page has room left. */
export async function recordPage<T>(store: Store, request: RecordPageRequest<T>): Promise<Page<T>> {
  const { prefix, cursor, limit = 50 } = request;
  const last = decodeCursor(cursor);
  const items: T[] = [];
  let end = "";
  // One more than is left, to know whether there is a next page.
  let reading: number | undefined = limit + 1;
  for (let after = last === undefined ? undefined : `${prefix}${last}`; ; ) {
    const { entries, more } = await store.range(prefix, { after, limit: reading });
    reading = undefined; // records were left out: the next reads are long, however short the page
    for (const entry of entries) {
      after = entry.key;
      const name = entry.key.slice(prefix.length);
      const item = name.includes("/") ? undefined : request.itemOf(entry);
      if (item === undefined) continue;
      if (items.length === limit) return { items, cursor: encodeCursor(end) };
      items.push(item);
      end = name;
    }
    if (!more) return { items };
  }
}
