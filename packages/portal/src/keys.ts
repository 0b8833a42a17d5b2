/**
 * The only place that spells a key of the portal. They all share one hash tag: the portal's own data
 * is small, and scripts may then touch an account and its session together on Redis Cluster as well.
 *
 *   ropeway:{portal}:users           prefix "ropeway"
 *   {shop}:portal:users              prefix "{shop}"
 */
import { unitPrefix } from "@ropeway/core/internal";

/** Spells the keys of one installation. */
export class PortalKeys {
  readonly #unit: string;

  constructor(prefix: string) {
    this.#unit = unitPrefix(prefix, "portal");
  }

  /** Set: the names of all accounts of version 0.1, which are moved to the store. */
  users(): string {
    return `${this.#unit}:users`;
  }

  /** Hash: one account of version 0.1: password, role, generation, createdAt, passwordAt. */
  user(name: string): string {
    return `${this.#unit}:user:${name}`;
  }

  /** String: this Redis has the sessions of an installation. Tasks of others than admins must not use it. */
  mark(): string {
    return `${this.#unit}:mark`;
  }

  /** Hash with a TTL: one session, by the SHA-256 of its token: user, generation, expiresAt. */
  session(digest: string): string {
    return `${this.#unit}:session:${digest}`;
  }

  /** Sorted set with a TTL: the session keys of one account, by when the sessions began. */
  sessionsOf(name: string): string {
    return `${this.#unit}:sessions:${name}`;
  }

  /** Hash with a TTL: failed logins of one user, with one password, from one place: count, until. */
  loginsOfUser(name: string, generation: number | string, place: string): string {
    return `${this.#unit}:logins:user:${name}:${generation}:${place}`;
  }

  /** Hash with a TTL: failed logins of one user, with one password, from all places: count, until. */
  loginsOfAccount(name: string, generation: number | string): string {
    return `${this.#unit}:logins:account:${name}:${generation}`;
  }

  /** Hash with a TTL: failed logins in one browser in which the user had signed in: count, until. */
  loginsOnDevice(device: string): string {
    return `${this.#unit}:logins:device:${device}`;
  }

  /** Hash with a TTL: failed logins from one place: count, until. */
  loginsFrom(place: string): string {
    return `${this.#unit}:logins:from:${place}`;
  }
}
