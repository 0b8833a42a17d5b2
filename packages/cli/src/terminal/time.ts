/** A time, in milliseconds since the epoch, as people and --json read it: ISO 8601, in UTC. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** The value with its times as --json prints them: the fields named `at`, `since`, `...At` and `...Since`. */
export function withIsoTimes<T extends object>(value: T): object {
  const fields = Object.entries(value).map(([name, field]) => {
    const isTime = /^at$|^since$|At$|Since$/.test(name) && typeof field === "number";
    return [name, isTime ? isoTime(field) : field];
  });
  return Object.fromEntries(fields);
}
