/**
 * Passwords to argon2id hashes and back, a few at a time. Each hash takes 64 MiB and tens of
 * milliseconds on purpose, so without a bound a burst of logins would take the machine's memory:
 * at most PARALLEL run, at most WAITING wait, and further logins get an OverloadedError.
 */
import { randomBytes } from "node:crypto";
import { hash, parseOptions, verify } from "@node-rs/argon2";
import { OverloadedError } from "@ropeway/core";

/** What a hash costs: KiB of memory, passes over it, lanes. */
export interface HashCost {
  readonly memoryCost: number;
  readonly timeCost: number;
  readonly parallelism: number;
}

/** RFC 9106's second recommended setting. */
const COST: HashCost = { memoryCost: 65_536, timeCost: 3, parallelism: 4 };
const PARALLEL = 2;
const WAITING = 32;

/** Hashes and checks passwords within a bound. */
export class PasswordHasher {
  readonly #cost: HashCost;
  #running = 0;
  readonly #queue: (() => void)[] = [];
  readonly #decoy: string;

  constructor(cost: HashCost = COST) {
    this.#cost = cost;
    this.#decoy = decoyOf(cost);
  }

  /** The password's hash as a PHC string. */
  hash(password: string): Promise<string> {
    return this.#bounded(() => hash(normal(password), this.#cost));
  }

  /** Whether the hash was made from the password. */
  verify(hashed: string, password: string): Promise<boolean> {
    return this.#bounded(() => verify(hashed, normal(password)));
  }

  /** Takes as long as verify() and is always false: the check for a user that does not exist. */
  async verifyNobody(password: string): Promise<false> {
    await this.verify(this.#decoy, password);
    return false;
  }

  /** Whether the hash was made at another cost than we use today. */
  isOutdated(hashed: string): boolean {
    const found = parseOptions(hashed);
    return (["memoryCost", "timeCost", "parallelism"] as const).some(
      (key) => found[key] !== this.#cost[key],
    );
  }

  async #bounded<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= PARALLEL) {
      if (this.#queue.length >= WAITING)
        throw new OverloadedError("the portal", "too many logins at once");
      await new Promise<void>((resolve) => this.#queue.push(resolve)); // its place was reserved
    } else {
      this.#running += 1;
    }
    try {
      return await work();
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}

/** A random hash of the same cost, which belongs to no password. */
function decoyOf({ memoryCost, timeCost, parallelism }: HashCost): string {
  const [salt, digest] = [16, 32].map((size) =>
    randomBytes(size).toString("base64").replace(/=/g, ""),
  );
  return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${salt}$${digest}`;
}

/** The same letters typed on two keyboards are the same password. */
function normal(password: string): string {
  return password.normalize("NFKC");
}
