/**
 * Names for calls: a random part per client and a counter. Workers of ours get short ids, which cost
 * less on every hop; all others get a UUID, as documented (version 8: its layout is ours to choose).
 * The counter can be read back from both, and is what calls are found by: a number is looked up in a
 * fraction of the time that a string takes.
 */
import { randomBytes } from "node:crypto";

/** Makes the ids of a client's calls. */
export class CallIds {
  /** The random part of the short ids; also names the client. */
  readonly client: string = randomBytes(9).toString("base64url");
  readonly #shortPrefix = `${this.client}.`;
  readonly #uuidPrefix = uuidPrefix();
  /** The counter in the newest id. */
  last = 0;

  next(short: boolean): string {
    this.last += 1;
    return short
      ? this.#shortPrefix + this.last
      : this.#uuidPrefix + this.last.toString(16).padStart(12, "0");
  }

  /** The counter in an id of ours; NaN for any other value. */
  numberOf(id: unknown): number {
    if (typeof id !== "string") return Number.NaN;
    if (id.startsWith(this.#shortPrefix)) return Number(id.slice(this.#shortPrefix.length));
    if (id.startsWith(this.#uuidPrefix)) return Number(`0x${id.slice(this.#uuidPrefix.length)}`);
    return Number.NaN;
  }
}

function uuidPrefix(): string {
  const hex = randomBytes(10).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(12, 15)}-8${hex.slice(15, 18)}-`;
}
