/**
 * The cursor of a page in the order of places.lua: the last place of the page, as "7:cm9vbQ". The name is in
 * base64url, because a cursor is printed and pasted into a shell, and names come from outside.
 */

/** A place in the order of cursors: of a room among those of a user, or of a member in a room. */
export interface OrderedPlace {
  readonly name: string;
  readonly cursor: number;
}

const PLACE = /^([^:]+):([\w-]+)$/;

/** Whether a value can be such a cursor. */
export function isPlaceCursor(value: unknown): boolean {
  return typeof value === "string" && placeOf(value) !== undefined;
}

/** What a page says of the next one. */
export function cursorAfter({ name, cursor }: OrderedPlace): { readonly cursor: string } {
  return { cursor: `${cursor}:${Buffer.from(name).toString("base64url")}` };
}

export function placeOf(cursor: string | undefined): OrderedPlace | undefined {
  const [, seen, name] = PLACE.exec(cursor ?? "") ?? [];
  if (seen === undefined || name === undefined || Number.isNaN(Number(seen))) return undefined;
  return { name: Buffer.from(name, "base64url").toString(), cursor: Number(seen) };
}
