/** Identifiers: cheap unique ids for calls and jobs, unguessable tokens for ownership. */
import { randomBytes, randomFillSync } from "node:crypto";

/**
 * Creates ids that are unique without coordination: 72 random bits chosen once, then a counter. A
 * counter costs a hundredth of fresh random bytes, and ids of one source sort by age within their
 * length. They are names, not secrets.
 */
export class IdSource {
  readonly #prefix: string;
  #count = 0;

  constructor(prefix: string = withoutDash(randomBytes(9).toString("base64url"))) {
    this.#prefix = prefix;
  }

  next(): string {
    this.#count += 1;
    return `${this.#prefix}.${this.#count.toString(36)}`;
  }
}

const TOKEN_BYTES = 16;
const pool: Buffer = Buffer.alloc(TOKEN_BYTES * 64);
let spent: number = pool.length;

/**
 * 128 random bits that cannot be guessed, for locks and leases. Random bytes are drawn for 64 tokens at a time,
 * because the call costs more than the bytes. Used bytes are overwritten, so that no token stays in memory here.
 */
export function newToken(): string {
  if (spent === pool.length) {
    randomFillSync(pool);
    spent = 0;
  }
  const token = pool.toString("base64url", spent, spent + TOKEN_BYTES);
  pool.fill(0, spent, spent + TOKEN_BYTES);
  spent += TOKEN_BYTES;
  return token;
}

/** The id, with another first character if it begins with "-", which a command line would parse as an option. */
export function withoutDash(id: string): string {
  return id.startsWith("-") ? `A${id.slice(1)}` : id;
}
