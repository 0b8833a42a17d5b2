/**
 * Ids for calls: a random part per client and a counter. Ropeway workers get short ids, which cost
 * less on every hop; all others get a UUID, as documented (version 8, whose layout can be chosen).
 * The counter can be read back from both. Calls are looked up by it, because a number is found in a
 * fraction of the time that a string takes.
 */
import { randomBytes } from "node:crypto";

const ZERO = 48; // "0"
/** The number of an id of another client. It is an integer like all others, because a Map finds integers fastest. */
const NONE = -1;

/** Creates the ids of a client's calls. */
export class CallIds {
  /** The random part of the short ids; also identifies the client. */
  readonly client: string = randomBytes(9).toString("base64url");
  /** The prefix of the short ids. */
  readonly shortPrefix: string = `${this.client}.`;
  readonly #uuidPrefix = uuidPrefix();
  /** The counter in the newest id. */
  last = 0;

  next(short: boolean): string {
    this.last += 1;
    return short
      ? this.short(this.last)
      : this.#uuidPrefix + this.last.toString(16).padStart(12, "0");
  }

  /** The short id with this counter. */
  short(number: number): string {
    return this.shortPrefix + number;
  }

  /** The counter in an id of this client; -1 or NaN for any other value. */
  numberOf(id: unknown): number {
    if (typeof id !== "string") return NONE;
    if (id.startsWith(this.shortPrefix)) return readDigits(id, this.shortPrefix.length);
    if (id.startsWith(this.#uuidPrefix)) return Number(`0x${id.slice(this.#uuidPrefix.length)}`);
    return NONE;
  }
}

/** The number at the end of a string, in half the time of slice() and Number(); NONE if there is none. */
function readDigits(text: string, from: number): number {
  let number = 0;
  for (let at = from; at < text.length; at++) {
    const digit = text.charCodeAt(at) - ZERO;
    if (digit < 0 || digit > 9) return NONE;
    number = number * 10 + digit;
  }
  return number;
}

function uuidPrefix(): string {
  const hex = randomBytes(10).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(12, 15)}-8${hex.slice(15, 18)}-`;
}
