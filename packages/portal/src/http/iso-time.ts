/** Times in responses: ISO 8601 in UTC, whereas the libraries use milliseconds since the epoch. */

/** The last millisecond of the year 9999, the last that has four digits. */
const LATEST_MS = 253_402_300_799_999;

/** Stands for a time that another program wrote and no calendar has, where a time must be. */
const EPOCH = new Date(0).toISOString();

/** The time as an ISO string; null if there is none, or if no calendar has it. */
export function isoTime(ms: number | null | undefined): string | null {
  if (ms === undefined || ms === null || !(Math.abs(ms) <= LATEST_MS)) return null;
  return new Date(ms).toISOString();
}

/** The same where a time must be: the epoch stands for one that no calendar has. */
export function isoTimeOrEpoch(ms: number): string {
  return isoTime(ms) ?? EPOCH;
}
