/** The cursor of a page of a user's rooms: the last place of the page, as "7:room". */
import type { Place } from "./store.ts";

const PLACE = /^([^:]+):(.+)$/s;

/** Whether a value can be such a cursor. */
export function isPlaceCursor(value: unknown): boolean {
  return typeof value === "string" && placeOf(value) !== undefined;
}

/** What a page says of the next one. */
export function cursorAfter(places: readonly Place[]): { readonly cursor?: string } {
  const last = places.at(-1);
  return last === undefined ? {} : { cursor: `${last.cursor}:${last.room}` };
}

export function placeOf(cursor: string | undefined): Place | undefined {
  const [, seen, room] = PLACE.exec(cursor ?? "") ?? [];
  if (seen === undefined || room === undefined || Number.isNaN(Number(seen))) return undefined;
  return { room, cursor: Number(seen) };
}
