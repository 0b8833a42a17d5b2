/** Reads a Retry-After header: seconds, or an HTTP date. */

/** The maximum time that an endpoint can hold back deliveries. */
export const LONGEST_RETRY_AFTER_MS: number = 86_400_000;

/** The ms to wait; undefined if the header is missing or invalid. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  const text = header?.trim() ?? "";
  if (text === "") return undefined;
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  if (Number.isNaN(ms)) return undefined;
  return Math.min(LONGEST_RETRY_AFTER_MS, Math.max(0, ms));
}
