/**
 * The accounts, managed directly in Redis without the portal. A user who can write to that Redis could
 * replace a password hash anyway, so no other permission is needed. Use it when the password of the last
 * admin is lost.
 */

import { openRedisStore, type Store } from "@ropeway/cluster";
import { InvalidOptionError, type Redis } from "@ropeway/core";
import { requireRedis } from "@ropeway/core/internal";
import { PasswordConflictError, UnknownAccountError } from "../errors.ts";
import { PortalKeys } from "../keys.ts";
import { passwordFault, randomPassword, usernameOf } from "./credentials.ts";
import { PasswordHasher } from "./hasher.ts";
import { AccessStore } from "./store.ts";
import type { AccountInfo } from "./users.ts";

/** How accounts are found. */
export interface AccountsOptions {
  /** The portal's own. @default "ropeway" */
  readonly prefix?: string;
  /** Where they are kept. @default the store on the same Redis */
  readonly store?: Store | undefined;
}

/** The accounts of one installation. */
export class Accounts {
  readonly #store: AccessStore;
  readonly #hasher: PasswordHasher = new PasswordHasher();

  constructor(redis: Redis, { prefix = "ropeway", store }: AccountsOptions = {}) {
    requireRedis(redis);
    const shared = store ?? openRedisStore(redis, { prefix: `${prefix}:store` });
    this.#store = new AccessStore(redis, new PortalKeys(prefix), shared);
  }

  /** All accounts, by name. */
  list(): Promise<readonly AccountInfo[]> {
    return this.#store.accounts();
  }

  /**
   * Gives the account a new password and ends all its sessions. Without one, it gets a random
   * password, which is returned once and cannot be shown again.
   */
  async setPassword(username: string, password?: string): Promise<string> {
    const fault = password === undefined ? undefined : passwordFault(password);
    if (fault !== undefined) throw new InvalidOptionError("password", "***", fault);
    const name = usernameOf(username);
    const account = name === undefined ? undefined : await this.#store.account(name);
    if (account === undefined) throw new UnknownAccountError(username);
    const next = password ?? randomPassword();
    const done = await this.#store.changePassword(account, await this.#hasher.hash(next));
    if (!done) throw new PasswordConflictError(account.username);
    return next;
  }
}
