/**
 * Sessions and login throttles, which live in Redis, and the accounts they belong to, which live in the
 * cluster's store: one method per read or change.
 */
import { createHash } from "node:crypto";
import { openRedisStore, type Store } from "@ropeway/cluster";
import type { Redis } from "@ropeway/core";
import type { PortalKeys } from "../keys.ts";
import {
  beginLogin,
  cancelLogin,
  endLogin,
  keepSession,
  openSession,
  type StoredSession,
  touchSession,
} from "../scripts.ts";
import { type Account, type AccountInfo, Users } from "./users.ts";

/** One count of failed logins: how many cause no delay, and the maximum delay. */
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
  /** From one place, of all users. */
  fromPlace: { free: 50, longestWaitMs: 900_000 },
  /** Of one user from all places: slows a distributed attack down, and locks no user out for long. */
  ofAccount: { free: 100, longestWaitMs: 60_000 },
} as const;

/** An account has no more sessions than this at a time. */
export const MAX_SESSIONS = 100;

/** A login attempt. */
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

  readonly users: Users;

  /** `store` holds the accounts. @default the one on the same Redis */
  constructor(redis: Redis, keys: PortalKeys, store: Store = openRedisStore(redis)) {
    this.#redis = redis;
    this.#keys = keys;
    this.users = new Users(store);
  }

  /** Whether there is any account. */
  async hasAccounts(): Promise<boolean> {
    // Also if there are accounts: an interrupted migration continues.
    await this.#adoptAccounts();
    return this.users.any();
  }

  /** Creates the account if it is the very first; false if there was one already. */
  createFirstAdmin(username: string, passwordHash: string): Promise<boolean> {
    return this.users.createFirst({ username, passwordHash, role: "admin" });
  }

  account(username: string): Promise<Account | undefined> {
    return this.users.get(username);
  }

  /** All accounts, by name. */
  accounts(): Promise<AccountInfo[]> {
    return this.users.list();
  }

  /** A new password: ends all sessions but the one with `token`. False if it changed meanwhile. */
  async changePassword(account: Account, passwordHash: string, token?: string): Promise<boolean> {
    const generation = await this.users.setPassword(account, passwordHash, { ends: true });
    if (generation === undefined) return false;
    if (token !== undefined) {
      await this.#redis.run(keepSession, [this.#keys.session(digestOf(token))], [generation]);
    }
    return true;
  }

  /** The same password at another cost: nothing ends. */
  async rehashPassword(account: Account, passwordHash: string): Promise<boolean> {
    return (await this.users.setPassword(account, passwordHash, { ends: false })) !== undefined;
  }

  /** Moves the accounts of version 0.1, which were hashes in Redis, into the store. */
  async #adoptAccounts(): Promise<void> {
    const all = this.#keys.users();
    const names = await this.#redis.send<readonly string[]>(["SMEMBERS", all], {
      key: all,
      repeatable: true,
    });
    const fields = ["password", "role", "generation", "createdAt", "passwordAt"];
    for (const username of names) {
      const key = this.#keys.user(username);
      const [password, role, ...numbers] = await this.#redis.send<readonly (string | null)[]>(
        ["HMGET", key, ...fields],
        { key, repeatable: true },
      );
      if (typeof password !== "string" || typeof role !== "string") continue;
      const [generation = 1, createdAt = 0, passwordAt = 0] = numbers.map(Number);
      await this.users.adopt({ username, password, role, generation, createdAt, passwordAt });
      await this.#redis.send(["DEL", key], { key, repeatable: true });
    }
    if (names.length > 0) await this.#redis.send(["DEL", all], { key: all, repeatable: true });
  }

  /** Marks this Redis as one with sessions, which an earlier version may have left unmarked. */
  async mark(): Promise<void> {
    const key = this.#keys.mark();
    const options = { key, repeatable: true };
    const marked = await this.#redis.send<number>(["EXISTS", key], options);
    if (marked === 0) await this.#redis.send(["SET", key, "1"], options);
  }

  /**
   * Opens the session that `token` names; returns when it ends at the latest. The oldest session of an
   * account with too many ends.
   */
  openSession(token: string, account: Account, life: SessionLife): Promise<number> {
    const { username, generation } = account;
    const keys = [
      this.#keys.session(digestOf(token)),
      this.#keys.sessionsOf(username),
      this.#keys.mark(),
    ];
    const { idleMs, maxMs } = life;
    return this.#redis.run(openSession, keys, [username, generation, idleMs, maxMs, MAX_SESSIONS]);
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

  /** Counts a login attempt before its password is checked. Returns how long to wait if it is refused. */
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

  /** The login that was counted was not tried: its password was not checked. */
  cancelLogin(attempt: LoginAttempt): Promise<void> {
    const keys = this.#throttles(attempt).map(({ key }) => key);
    return this.#redis.run(cancelLogin, keys, []);
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

/** The stored form of a token: a reader of Redis cannot use it. */
function digestOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}
