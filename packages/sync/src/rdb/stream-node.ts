/**
 * The entries of one node of a stream, packed in a listpack.
 *
 *   master    live entries, deleted entries, number of fields, field names, 0
 *   entry     flags, ms and seq relative to the node's id,
 *             [number of fields, then field and value ... | the values of the master's fields],
 *             number of elements, for reading backwards
 *   flags     1: deleted   2: has the master's fields
 */
import { RdbFormatError } from "../errors.ts";
import { ListpackCursor } from "../packed/listpack.ts";
import type { StreamEntry, StreamId } from "../value/part.ts";

const DELETED = 1;
const SAME_FIELDS = 2;

/** The live entries of a node, one at a time; `offset` is the position of the listpack, for errors. */
export function* nodeEntries(
  node: StreamId,
  listpack: Buffer,
  offset: number,
): Generator<StreamEntry, void> {
  const cursor = new ListpackCursor(listpack, offset);
  const element = (): Buffer => {
    const value = cursor.next();
    if (value === undefined) throw new RdbFormatError(offset, "a stream node that ends early");
    return value;
  };
  const live = cursor.nextNumber();
  const deleted = cursor.nextNumber();
  const master: Buffer[] = [];
  for (let left = cursor.nextNumber(); left > 0; left--) master.push(element());
  element(); // the 0 that ends the master entry
  for (let left = live + deleted; left > 0; left--) {
    const flags = cursor.nextNumber();
    const ms = BigInt.asUintN(64, node.ms + cursor.nextBig());
    const seq = BigInt.asUintN(64, node.seq + cursor.nextBig());
    const fields: Buffer[] = [];
    if (flags & SAME_FIELDS) {
      for (const field of master) fields.push(field, element());
    } else {
      for (let pairs = cursor.nextNumber(); pairs > 0; pairs--) fields.push(element(), element());
    }
    element(); // how many elements the entry has
    if (!(flags & DELETED)) yield { id: { ms, seq }, fields };
  }
}
