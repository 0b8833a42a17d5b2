/** Opens a packed collection with the cursor of its packing. */
import type { Packing } from "../rdb/shape.ts";
import { IntsetCursor } from "./intset.ts";
import { ListpackCursor } from "./listpack.ts";
import type { PackedCursor } from "./packed.ts";
import { ZiplistCursor } from "./ziplist.ts";
import { ZipmapCursor } from "./zipmap.ts";

/** `offset` is the position of the bytes in the file, for errors. */
export function openPacked(packing: Packing, bytes: Buffer, offset: number): PackedCursor {
  if (packing === "listpack") return new ListpackCursor(bytes, offset);
  if (packing === "ziplist") return new ZiplistCursor(bytes, offset);
  return packing === "intset" ? new IntsetCursor(bytes, offset) : new ZipmapCursor(bytes, offset);
}
