/**
 * The accounts as the operator of the Redis handles them, past the portal: whoever may write to that
 * Redis could replace a hash anyway, so this asks for no other permission. It is the way back in when
 * the last admin has forgotten the password.
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

  /** Everyone who can sign in, by name. */
  list(): Promise<readonly AccountInfo[]> {
    return this.#store.accounts();
  }

  /**
   * Gives the account a new password and ends all its sessions. Without one it gets a random one, which
   * is returned and which nothing can show again.
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
