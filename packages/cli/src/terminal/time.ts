/** A time, in milliseconds since the epoch, as people and --json read it: ISO 8601, in UTC. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
