/**
 * Bearer tokens of a port without accounts. Guesses are throttled per address: after some wrong tokens
 * all requests from there are refused for a while, twice as long each time. An address that has sent a correct
 * token lately may go on sending that one, so that another client behind the same proxy cannot lock it out
 * by guessing.
 *
 * Counted in memory, since a push must not cost a second round trip to Redis; with several processes an
 * attacker has as many guesses as there are processes.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { RopewayError } from "@ropeway/core";
import { TooManyLoginsError, UnauthenticatedError } from "../errors.ts";

/** Wrong tokens that an address may send before it has to wait. */
const FREE = 20;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;
/** After this long without a wrong token, the count of an address is reset. */
const FORGET_MS = 3_600_000;
/** The most addresses that are remembered; the one unused for longest is forgotten. */
const MOST_PLACES = 10_000;

interface Place {
  wrong: number;
  /** Until when all requests are refused, by performance.now(). */
  until: number;
  lastWrong: number;
  /** The digest of the last correct token from there. */
  right: Buffer | undefined;
}

/** The tokens of one port. */
export class TokenGuard {
  readonly #tokens: readonly Buffer[];
  readonly #places = new Map<string, Place>();

  /** Without tokens, every request is allowed. */
  constructor(tokens: readonly string[] = []) {
    this.#tokens = tokens.map(digestOf);
  }

  /** The number of addresses that are remembered. */
  get size(): number {
    return this.#places.size;
  }

  /** Whether a request needs a token. */
  get required(): boolean {
    return this.#tokens.length > 0;
  }

  /** Why a request with this Authorization header must not be served; undefined if it may be. */
  refusal(authorization: string | undefined, from: string): RopewayError | undefined {
    if (!this.required) return undefined;
    const given = digestOf((authorization ?? "").replace(/^Bearer\s+/i, ""));
    const now = performance.now();
    const known = this.#places.get(from);
    if (known?.right !== undefined && timingSafeEqual(known.right, given)) return undefined;
    if (known !== undefined && known.until > now) return new TooManyLoginsError(known.until - now);
    if (this.#tokens.some((token) => timingSafeEqual(token, given))) {
      this.#remember(from, { wrong: 0, until: 0, lastWrong: now, ...known, right: given });
      return undefined;
    }
    if (authorization !== undefined) this.#countWrong(from, known, now);
    return new UnauthenticatedError("send Authorization: Bearer with a valid token");
  }

  #countWrong(from: string, known: Place | undefined, now: number): void {
    const isOld = known !== undefined && now - known.lastWrong > FORGET_MS;
    const wrong = (isOld ? 0 : (known?.wrong ?? 0)) + 1;
    const over = wrong - FREE;
    const waitMs =
      over < 0 ? 0 : Math.min(FIRST_WAIT_MS * 2 ** Math.min(over, 30), LONGEST_WAIT_MS);
    const until = waitMs === 0 ? 0 : now + waitMs;
    this.#remember(from, { wrong, until, lastWrong: now, right: known?.right });
  }

  #remember(from: string, place: Place): void {
    this.#places.delete(from); // to the end: the order is that of the last use
    this.#places.set(from, place);
    if (this.#places.size <= MOST_PLACES) return;
    const [oldest] = this.#places.keys();
    if (oldest !== undefined) this.#places.delete(oldest);
  }
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
