/** Reads all files of an AOF, one after another. */

import { fileChunks } from "../file-chunks.ts";
import type { RdbReaderOptions } from "../rdb/options.ts";
import { aofFiles } from "./manifest.ts";
import { type AofItem, AofReader } from "./reader.ts";

/** How an AOF is read. */
export interface ReadAofOptions {
  /** Ignore an incomplete command at the end of the last file. @default true */
  readonly truncatedAllowed?: boolean;
  readonly rdb?: RdbReaderOptions;
}

/**
 * The items of an AOF. `path` is its folder, its manifest, or a single file. The server did not execute the
 * commands of a MULTI without EXEC; the caller has to drop them.
 */
export async function* readAof(
  path: string,
  { truncatedAllowed = true, rdb = {} }: ReadAofOptions = {},
): AsyncGenerator<AofItem, void> {
  const files = await aofFiles(path);
  for (const [i, file] of files.entries()) {
    const reader = new AofReader(file, rdb);
    for await (const chunk of fileChunks(file)) {
      reader.push(chunk);
      for (let item = reader.next(); item !== undefined; item = reader.next()) yield item;
    }
    reader.end({ truncatedAllowed: truncatedAllowed && i === files.length - 1 });
  }
}
