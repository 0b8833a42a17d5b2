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

/** How failed logins slow down the next ones. */
export const THROTTLE = {
  firstWaitMs: 1_000,
  longestWaitMs: 900_000,
  forgetAfterMs: 3_600_000,
  /** Wrong passwords that one user may have from one place before waiting. */
  freeOfUser: 5,
  /** Wrong passwords, of whatever users, that one place may have before waiting. */
  freeFromPlace: 50,
} as const;

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

  async dropSession(token: string): Promise<void> {
    const key = this.#keys.session(digestOf(token));
    await this.#redis.send(["DEL", key], { key, repeatable: true });
  }

  /** Counts a login before it is tried; returns how long to wait if it must not be. */
  beginLogin(username: string, place: string): Promise<number> {
    const { firstWaitMs, longestWaitMs, forgetAfterMs, freeOfUser, freeFromPlace } = THROTTLE;
    return this.#redis.run(beginLogin, this.#throttles(username, place), [
      firstWaitMs,
      longestWaitMs,
      forgetAfterMs,
      freeOfUser,
      freeFromPlace,
    ]);
  }

  /** The login that was counted succeeded. */
  endLogin(username: string, place: string): Promise<void> {
    return this.#redis.run(endLogin, this.#throttles(username, place), []);
  }

  #throttles(username: string, place: string): string[] {
    return [this.#keys.loginsOfUser(username, place), this.#keys.loginsFrom(place)];
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
