/** A cursor contains only the last item seen, so any portal can continue from it at any time. */
import { InvalidArgumentError } from "@ropeway/core";

/** The cursor after an item. */
export function encodeCursor(last: string): string {
  return Buffer.from(last).toString("base64url");
}

/** The item that a cursor stands behind. */
export function decodeCursor(cursor: string | undefined): string | undefined {
  if (cursor === undefined || cursor === "") return undefined;
  const last = Buffer.from(cursor, "base64url").toString("utf8");
  // The end of a path, also of another program: names of keys can have any character.
  const usable = /^[^/\0][^\0]{0,1023}$/u.test(last) && encodeCursor(last) === cursor;
  if (!usable) throw new InvalidArgumentError("cursor", cursor, "one that a list returned");
  return last;
}
