/**
 * Keeps a log readable while Redis or the store is away. Every part then reports the same error
 * repeatedly. The first line is enough; the rest would fill the disk of a machine whose Redis is away for
 * a night. Lines about requests are not touched: they have an id that can be searched for.
 */

/** Errors that repeat while a server is unreachable. The loss of a connection happens once and is always written. */
const AWAY = new Set(["NOT_CONNECTED", "CONNECT_FAILED", "STORE_UNAVAILABLE"]);
const QUIET_MS = 600_000;
const MOST_KEYS = 200;

/** Decides which lines are written. */
export class RepeatFilter {
  readonly #seen = new Map<string, number>();

  /** Whether the line is new, or was not written for ten minutes. */
  passes(fields: unknown, message: unknown, now: number = performance.now()): boolean {
    const { err, requestId } = (fields ?? {}) as { err?: { code?: unknown }; requestId?: unknown };
    const code = err?.code;
    if (typeof code !== "string" || !AWAY.has(code) || requestId !== undefined) return true;
    const key = `${code} ${String(message)}`;
    const until = this.#seen.get(key);
    if (until !== undefined && now < until) return false;
    if (this.#seen.size >= MOST_KEYS) this.#seen.clear();
    this.#seen.set(key, now + QUIET_MS);
    return true;
  }
}
