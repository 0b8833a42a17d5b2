/** Identifiers: cheap unique ids for calls and jobs, unguessable tokens for ownership. */
import { randomBytes } from "node:crypto";

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

/** 128 random bits that cannot be guessed, for locks and leases. */
export function newToken(): string {
  return randomBytes(16).toString("base64url");
}

/** The id, with another first character if it begins with "-", which a command line would parse as an option. */
export function withoutDash(id: string): string {
  return id.startsWith("-") ? `A${id.slice(1)}` : id;
}
