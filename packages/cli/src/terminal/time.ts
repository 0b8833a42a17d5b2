/** The last time that a Date can hold. A record of another program may have any number. */
const LATEST_MS = 8.64e15;

/** A time, in milliseconds since the epoch, as people and --json read it: ISO 8601, in UTC. */
export function isoTime(ms: number): string {
  return Math.abs(ms) <= LATEST_MS ? new Date(ms).toISOString() : String(ms);
}

/** The value with its times as --json prints them: the fields named `at`, `since`, `...At` and `...Since`. */
export function withIsoTimes<T extends object>(value: T): object {
  const fields = Object.entries(value).map(([name, field]) => {
    const isTime = /^at$|^since$|At$|Since$/.test(name) && typeof field === "number";
    return [name, isTime ? isoTime(field) : field];
  });
  return Object.fromEntries(fields);
}
