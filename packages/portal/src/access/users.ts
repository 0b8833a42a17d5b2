/**
 * The accounts, in the cluster's store under /tasks/user/{username}: the documented fields, and ours.
 * Every portal of an installation sees the same ones, on Redis as on etcd.
 */
import {
  AlreadyExistsError,
  ConflictError,
  type Entry,
  ProtectedError,
  type Store,
} from "@ropeway/cluster";
import {
  absent,
  countOf,
  createRecords,
  keys,
  lastPart,
  optimistically,
  putRecord,
  rangeAll,
  recordOf,
  textOf,
  timeOf,
  unchanged,
} from "@ropeway/cluster/internal";
import type { Page } from "@ropeway/core";
import { PasswordConflictError, UnknownAccountError } from "../errors.ts";
import { type PageRequest, recordPage } from "./record-page.ts";
import { Roles } from "./roles.ts";
import { Tokens } from "./tokens.ts";

/** An account. */
export interface Account {
  readonly username: string;
  readonly role: string;
  /** argon2id, as a PHC string. */
  readonly passwordHash: string;
  /**
   * Grows when the password changes; sessions of an older generation are over. It begins at the time of
   * creation, so that an account with the name of a removed one does not take over its sessions.
   */
  readonly generation: number;
  /** Distinguishes it from a removed account of the same name; API tokens belong to this id. */
  readonly id: number;
}

/** The public fields of an account. */
export interface AccountInfo {
  readonly username: string;
  readonly role: string;
  /** When it was created, ms since 1970. */
  readonly createdAt: number;
  /** When its password was set, ms since 1970. */
  readonly passwordAt: number;
}

/** The record as it is stored. The salt is inside the hash. */
interface StoredUser {
  readonly id: number;
  readonly username: string;
  readonly name: string;
  readonly password: string;
  readonly salt: "";
  readonly role: string;
  readonly generation: number;
  readonly createdAt: number;
  readonly passwordAt: number;
}

/** A change of an account. */
interface UserChange {
  readonly check?: RoleCheck | undefined;
  /** The role that it gives. */
  readonly role?: string;
  /** The account as it becomes; undefined if it is removed. */
  to(user: StoredUser): StoredUser | undefined;
}

/** What becomes of an account; what is left out stays. */
export interface UserEdit {
  readonly role?: string | undefined;
  readonly passwordHash?: string | undefined;
}

/** A new account. */
export interface NewUser {
  readonly username: string;
  readonly role: string;
  readonly passwordHash: string;
}

/**
 * Throws if the caller may not change accounts with this role, or give it. Each attempt of a change asks, because the
 * account may have got another role, and the role other permissions, since the last one.
 */
export type RoleCheck = (role: string) => Promise<void>;

const CREATE_TRIES = 3;

/** The accounts of one installation. */
export class Users {
  readonly #store: Store;
  readonly #roles: Roles;

  constructor(store: Store) {
    this.#store = store;
    this.#roles = new Roles(store);
  }

  /** Whether there is any account. */
  async any(): Promise<boolean> {
    return (await this.#store.range(keys.users, { limit: 1 })).entries.length > 0;
  }

  async get(username: string): Promise<Account | undefined> {
    const user = userOf(await this.#store.get(keys.user(username)));
    return user && accountOf(user);
  }

  /** All accounts, by name. */
  async list(): Promise<AccountInfo[]> {
    const { entries } = await rangeAll(this.#store, keys.users);
    return entries.map(infoOf).filter((user) => user !== undefined);
  }

  /** A page of them. */
  page(request: PageRequest): Promise<Page<AccountInfo>> {
    return recordPage(this.#store, { ...request, prefix: keys.users, itemOf: infoOf });
  }

  /** Creates the account if it is the very first; false if an account has ever existed. */
  async createFirst(user: NewUser): Promise<boolean> {
    const { username } = user;
    return createRecords(this.#store, {
      [keys.firstAdmin]: { username, at: Date.now() },
      [keys.user(username)]: storedOf(user),
    });
  }

  /** Throws AlreadyExistsError if the name is taken, and UnknownRoleError if the role does not exist. */
  async create(user: NewUser, check?: RoleCheck): Promise<AccountInfo> {
    const stored = storedOf(user);
    const key = keys.user(user.username);
    for (let tries = 1; tries <= CREATE_TRIES; tries++) {
      const giving = await this.#roles.giving(user.role);
      await check?.(user.role);
      if (await createRecords(this.#store, { [key]: stored }, giving)) return stored;
      const taken = (await this.#store.get(key)) !== undefined;
      if (taken) throw new AlreadyExistsError("user", user.username);
      // The role has changed meanwhile.
    }
    throw new ConflictError(`user ${user.username}`);
  }

  /** Removes an account. Its sessions and tokens are invalid from then on. */
  async remove(username: string, check?: RoleCheck): Promise<void> {
    await this.#change(username, { check, to: () => undefined });
    // They belong to the id of the removed account and are already refused.
    await new Tokens(this.#store).removeAll(username);
  }

  /** Gives it another role, which applies from the next request. */
  setRole(username: string, role: string, check?: RoleCheck): Promise<AccountInfo> {
    const change: UserChange = { check, role, to: (user) => ({ ...user, role }) };
    return this.#change(username, change) as Promise<AccountInfo>;
  }

  /**
   * Gives it another role, another password, or both in one transaction. A new password ends its sessions.
   * Throws PasswordConflictError if its password is not the one that was read any more.
   */
  edit(account: Account, edit: UserEdit, check?: RoleCheck): Promise<AccountInfo> {
    const { role, passwordHash: password } = edit;
    const to = (user: StoredUser): StoredUser => {
      const next = { ...user, ...(role !== undefined && { role }) };
      if (password === undefined) return next;
      if (user.password !== account.passwordHash) throw new PasswordConflictError(user.username);
      return { ...next, password, generation: user.generation + 1, passwordAt: Date.now() };
    };
    const change: UserChange = { check, to, ...(role !== undefined && { role }) };
    return this.#change(account.username, change) as Promise<AccountInfo>;
  }

  /** Replaces the hash if it is still the one that was read; returns the new generation. */
  async setPassword(
    account: Account,
    passwordHash: string,
    { ends, check }: { readonly ends: boolean; readonly check?: RoleCheck },
  ): Promise<number | undefined> {
    const key = keys.user(account.username);
    const entry = await this.#store.get(key);
    const user = userOf(entry);
    if (user === undefined || user.password !== account.passwordHash) return undefined;
    await check?.(user.role);
    const next: StoredUser = ends
      ? { ...user, password: passwordHash, generation: user.generation + 1, passwordAt: Date.now() }
      : { ...user, password: passwordHash };
    const { succeeded } = await this.#store.txn({
      if: [unchanged(key, entry)],
      do: [putRecord(key, next)],
    });
    return succeeded ? next.generation : undefined;
  }

  /** Takes over an account of an earlier version. */
  async adopt(user: Omit<StoredUser, "id" | "name" | "salt">): Promise<void> {
    const key = keys.user(user.username);
    const whole: StoredUser = { id: user.createdAt, name: user.username, salt: "", ...user };
    await this.#store.txn({ if: [absent(key)], do: [putRecord(key, whole)] });
  }

  #change(username: string, change: UserChange): Promise<AccountInfo | undefined> {
    const { check, role, to } = change;
    const key = keys.user(username);
    return optimistically(this.#store, `user ${username}`, async () => {
      const { entries } = await rangeAll(this.#store, keys.users);
      const entry = entries.find((one) => one.key === key);
      const user = userOf(entry);
      if (user === undefined) throw new UnknownAccountError(username);
      const giving = role === undefined ? { if: [], do: [] } : await this.#roles.giving(role);
      await check?.(user.role);
      if (role !== undefined) await check?.(role);
      const next = to(user);
      const admins = entries.filter((one) => userOf(one)?.role === "admin");
      if (user.role === "admin" && next?.role !== "admin" && admins.length < 2) {
        throw new ProtectedError(`user ${username}`, "it is the last admin");
      }
      return {
        // The other admins must still be there, or two removals at once could leave none.
        if: [
          unchanged(key, entry),
          ...giving.if,
          ...admins.slice(0, 100).map((one) => unchanged(one.key, one)),
        ].filter(
          (compare, index, all) =>
            all.findIndex(({ key: other }) => other === compare.key) === index,
        ),
        do: [next === undefined ? { op: "delete", key } : putRecord(key, next), ...giving.do],
        result: next,
      };
    });
  }
}

/**
 * The account in an entry; undefined if the entry has no password, or the account of another path. Fields that
 * another program left out get their defaults, so that one record cannot stop the list of all.
 */
function userOf(entry: Entry | undefined): StoredUser | undefined {
  const found = recordOf<Partial<Record<keyof StoredUser, unknown>>>(entry);
  if (entry === undefined || typeof found?.password !== "string") return undefined;
  const username = lastPart(entry.key);
  if (entry.key !== keys.user(username) || (found.username ?? username) !== username) {
    return undefined;
  }
  return {
    ...found,
    id: countOf(found.id),
    username,
    name: textOf(found.name),
    password: found.password,
    salt: "",
    role: textOf(found.role),
    generation: countOf(found.generation),
    createdAt: timeOf(found.createdAt) ?? 0,
    passwordAt: timeOf(found.passwordAt) ?? 0,
  };
}

function infoOf(entry: Entry): AccountInfo | undefined {
  const user = userOf(entry);
  if (user === undefined) return undefined;
  const { username, role, createdAt, passwordAt } = user;
  return { username, role, createdAt, passwordAt };
}

function accountOf({ username, role, password, generation, id }: StoredUser): Account {
  return { username, role, passwordHash: password, generation, id };
}

function storedOf({ username, role, passwordHash }: NewUser): StoredUser {
  const now = Date.now();
  return {
    id: now,
    username,
    name: username,
    password: passwordHash,
    salt: "",
    role,
    generation: now,
    createdAt: now,
    passwordAt: now,
  };
}
