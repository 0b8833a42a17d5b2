/** A number that is stored as a string, under a key that other programs may write to as well. */

/** The integer in `stored`; undefined if it is not an integer. */
export function storedInteger(stored: string | null | undefined): number | undefined {
  const value = /^\d{1,16}$/.test(stored ?? "") ? Number(stored) : Number.NaN;
  return Number.isSafeInteger(value) ? value : undefined;
}
