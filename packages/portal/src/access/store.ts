/** Accounts, sessions and login throttles in Redis: one method per question or change. */
import { createHash } from "node:crypto";
import type { Redis } from "@ropeway/core";
import type { PortalKeys } from "../keys.ts";
import {
  beginLogin,
  createFirstAdmin,
  endLogin,
  openSession,
  type StoredSession,
  setPassword,
  touchSession,
} from "../scripts.ts";

/** Someone who can sign in. */
export interface Account {
  readonly username: string;
  readonly role: string;
  /** argon2id, as a PHC string. */
  readonly passwordHash: string;
  /** Grows when the password changes; sessions of an older generation are over. */
  readonly generation: number;
}

/** What may be told of an account. */
export interface AccountInfo {
  readonly username: string;
  readonly role: string;
  /** When it was created, ms since 1970. */
  readonly createdAt: number;
  /** When its password was set, ms since 1970. */
  readonly passwordAt: number;
}

/** One count of failed logins: how many are free, and how long the wait can grow. */
interface Throttle {
  readonly key: string;
  readonly free: number;
  readonly longestWaitMs: number;
}

const FIRST_WAIT_MS = 1_000;
const FORGET_AFTER_MS = 3_600_000;

/** How failed logins slow down the next ones. Each counts for one user and password, or for one place. */
export const THROTTLES = {
  /** Of one user from one place. */
  ofUser: { free: 5, longestWaitMs: 900_000 },
  /** Of one user in a browser in which that user had signed in; nothing else counts there. */
  onDevice: { free: 5, longestWaitMs: 900_000 },
  /** From one place, of whatever users. */
  fromPlace: { free: 50, longestWaitMs: 900_000 },
  /** Of one user from all places: slows a spread attack down, and keeps nobody out for long. */
  ofAccount: { free: 100, longestWaitMs: 60_000 },
} as const;

/** A login that is to be tried. */
export interface LoginAttempt {
  readonly username: string;
  /** The account's; a new password has a new one, and so starts without failures. */
  readonly generation: number;
  readonly place: string;
  /** The known device it is tried on. */
  readonly device: string | undefined;
}

/** The portal's data about access. */
export class AccessStore {
  readonly #redis: Redis;
  readonly #keys: PortalKeys;

  constructor(redis: Redis, keys: PortalKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** Whether there is any account. */
  async hasAccounts(): Promise<boolean> {
    const key = this.#keys.users();
    return (await this.#redis.send(["EXISTS", key], { key, repeatable: true })) === 1;
  }

  /** Creates the account if it is the very first; false if there was one already. */
  createFirstAdmin(username: string, passwordHash: string): Promise<boolean> {
    const keys = [this.#keys.users(), this.#keys.user(username)];
    return this.#redis.run(createFirstAdmin, keys, [username, passwordHash, "admin"]);
  }

  async account(username: string): Promise<Account | undefined> {
    const key = this.#keys.user(username);
    const fields = ["password", "role", "generation"];
    const [passwordHash, role, generation] = await this.#redis.send<readonly (string | null)[]>(
      ["HMGET", key, ...fields],
      { key, repeatable: true },
    );
    if (typeof passwordHash !== "string" || typeof role !== "string") return undefined;
    return { username, passwordHash, role, generation: Number(generation) };
  }

  /** Everyone who can sign in, by name. */
  async accounts(): Promise<AccountInfo[]> {
    const key = this.#keys.users();
    const names = await this.#redis.send<readonly string[]>(["SMEMBERS", key], {
      key,
      repeatable: true,
    });
    const found = await Promise.all([...names].sort().map((name) => this.#info(name)));
    return found.filter((account) => account !== undefined);
  }

  async #info(username: string): Promise<AccountInfo | undefined> {
    const key = this.#keys.user(username);
    const [role, createdAt, passwordAt] = await this.#redis.send<readonly (string | null)[]>(
      ["HMGET", key, "role", "createdAt", "passwordAt"],
      { key, repeatable: true },
    );
    if (typeof role !== "string") return undefined;
    return { username, role, createdAt: Number(createdAt), passwordAt: Number(passwordAt) };
  }

  /** A new password: ends all sessions but the one with `token`. False if it changed meanwhile. */
  changePassword(account: Account, passwordHash: string, token: string = ""): Promise<boolean> {
    const keys = [this.#keys.user(account.username), this.#keys.session(digestOf(token))];
    return this.#redis.run(setPassword, keys, [account.passwordHash, passwordHash, "1"]);
  }

  /** The same password at another cost: nothing ends. */
  rehashPassword(account: Account, passwordHash: string): Promise<boolean> {
    const keys = [this.#keys.user(account.username), this.#keys.session(digestOf(""))];
    return this.#redis.run(setPassword, keys, [account.passwordHash, passwordHash, "0"]);
  }

  /** Opens the session that `token` names; returns when it ends at the latest. */
  openSession(token: string, account: Account, life: SessionLife): Promise<number> {
    const key = this.#keys.session(digestOf(token));
    const { username, generation } = account;
    return this.#redis.run(openSession, [key], [username, generation, life.idleMs, life.maxMs]);
  }

  /** Reads the session and keeps it from being idle. */
  touchSession(token: string, life: SessionLife): Promise<StoredSession | undefined> {
    return this.#redis.run(touchSession, [this.#keys.session(digestOf(token))], [life.idleMs]);
  }

  /** Reads the session and leaves it as it is. */
  async session(token: string): Promise<{ readonly generation: number } | undefined> {
    const key = this.#keys.session(digestOf(token));
    const generation = await this.#redis.send<string | null>(["HGET", key, "generation"], {
      key,
      repeatable: true,
    });
    return generation === null ? undefined : { generation: Number(generation) };
  }

  async dropSession(token: string): Promise<void> {
    const key = this.#keys.session(digestOf(token));
    await this.#redis.send(["DEL", key], { key, repeatable: true });
  }

  /** Counts a login before it is tried; returns how long to wait if it must not be. */
  beginLogin(attempt: LoginAttempt): Promise<number> {
    const throttles = this.#throttles(attempt);
    const keys = throttles.map(({ key }) => key);
    const bounds = throttles.flatMap(({ free, longestWaitMs }) => [free, longestWaitMs]);
    return this.#redis.run(beginLogin, keys, [FIRST_WAIT_MS, FORGET_AFTER_MS, ...bounds]);
  }

  /** The login that was counted succeeded. */
  endLogin(attempt: LoginAttempt): Promise<void> {
    const keys = this.#throttles(attempt).map(({ key }) => key);
    return this.#redis.run(endLogin, keys, []);
  }

  #throttles({ username, generation, place, device }: LoginAttempt): Throttle[] {
    const keys = this.#keys;
    const { onDevice, ofUser, fromPlace, ofAccount } = THROTTLES;
    if (device !== undefined) return [{ key: keys.loginsOnDevice(device), ...onDevice }];
    return [
      { key: keys.loginsOfUser(username, generation, place), ...ofUser },
      { key: keys.loginsFrom(place), ...fromPlace },
      { key: keys.loginsOfAccount(username, generation), ...ofAccount },
    ];
  }
}

/** How long sessions last. */
export interface SessionLife {
  readonly idleMs: number;
  readonly maxMs: number;
}

/** What is kept of a token: whoever reads the Redis cannot use it. */
function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
