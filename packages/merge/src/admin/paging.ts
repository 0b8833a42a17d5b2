/** Checks of the options of paged lists. */
import { InvalidArgumentError } from "@ropeway/core";

/** The page of a list. */
export interface PageOptions {
  /** The cursor of the previous page; the first page if it is left out. */
  readonly cursor?: string | undefined;
  /** The maximum number of items, 1 to 1,000. @default 50 */
  readonly limit?: number | undefined;
}

/** The first position and the size of a page. Throws InvalidArgumentError. */
export function pageOf({ cursor = "0", limit = 50 }: PageOptions): { from: number; limit: number } {
  checkLimit(limit);
  if (typeof cursor !== "string" || !/^\d{1,12}$/.test(cursor)) {
    throw new InvalidArgumentError("cursor", cursor, "the cursor of an earlier page");
  }
  return { from: Number(cursor), limit };
}

/** Throws InvalidArgumentError. */
export function checkLimit(limit: number): void {
  if (Number.isSafeInteger(limit) && limit >= 1 && limit <= 1_000) return;
  throw new InvalidArgumentError("limit", limit, "a whole number from 1 to 1000");
}

/** The cursor of the next page, as a property that is absent on the last one. */
export function nextPage(cursor: string | number | undefined): { cursor?: string } {
  return cursor === undefined ? {} : { cursor: String(cursor) };
}

/** Throws InvalidArgumentError if an object has an unknown property: a misspelt one would be ignored. */
export function checkNames(given: object, known: readonly string[]): void {
  for (const [name, value] of Object.entries(given)) {
    if (known.includes(name)) continue;
    throw new InvalidArgumentError(name, value, `one of ${known.join(", ")}`);
  }
}

/** Checks the maximum number of bytes of a page. */
export function checkMaxBytes(maxBytes: number): number {
  if (Number.isSafeInteger(maxBytes) && maxBytes >= 1 && maxBytes <= 16_777_216) return maxBytes;
  throw new InvalidArgumentError("maxBytes", maxBytes, "a whole number from 1 to 16777216");
}
