/** Times in responses: ISO 8601 in UTC, whereas the libraries use milliseconds since the epoch. */

/** The last millisecond of the year 9999, the last that has four digits. */
const LATEST_MS = 253_402_300_799_999;

/** Replaces an out-of-range time of another program where a time is required. */
const EPOCH = new Date(0).toISOString();

/** The time as an ISO string; null if there is none, or if it is out of range. */
export function isoTime(ms: number | null | undefined): string | null {
  if (ms === undefined || ms === null || !(Math.abs(ms) <= LATEST_MS)) return null;
  return new Date(ms).toISOString();
}

/** The same where a time is required: the epoch replaces a time that is out of range. */
export function isoTimeOrEpoch(ms: number): string {
  return isoTime(ms) ?? EPOCH;
}
