/**
 * API tokens, under /tasks/token/{id}. The secret is shown once, when the token is made; the store has
 * its SHA-256, which is enough for a secret of 256 random bits. A token can do what its owner can, or
 * less, and nothing once it has expired, was revoked, or its owner is gone: it belongs to the account's id,
 * so an account that is created later under the same name does not inherit it.
 *
 *   rwt_<id, 16 hex>_<secret, 43 base64url>
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { type Entry, type Store, UnknownTokenError } from "@ropeway/cluster";
import {
  createRecords,
  keys,
  lastPart,
  putRecord,
  rangeAll,
  recordOf,
  textOf,
  timeOf,
  unchanged,
} from "@ropeway/cluster/internal";
import { type Clock, localClock, type Page } from "@ropeway/core";
import { TooManyTokensError } from "../errors.ts";
import { type PageRequest, recordPage } from "./record-page.ts";
import type { Account } from "./users.ts";

/** The public fields of a token. */
export interface TokenInfo {
  readonly id: string;
  readonly name: string;
  readonly username: string;
  /** Grants that it is limited to; null for all of its owner's. */
  readonly permissions: readonly string[] | null;
  /** Groups that it is limited to; null for all of its owner's. */
  readonly groups: readonly string[] | null;
  readonly createdAt: number;
  /** ms since 1970; null for never. */
  readonly expiresAt: number | null;
  /** When it was last used, to the minute; null if it never was. */
  readonly lastUsedAt: number | null;
}

interface StoredToken extends TokenInfo {
  readonly hash: string;
  /** The id of the account it acts for. */
  readonly accountId: number;
}

/** A new token. */
export interface NewToken extends Pick<TokenInfo, "name" | "permissions" | "groups" | "expiresAt"> {
  /** The account it acts for. */
  readonly account: Pick<Account, "username" | "id">;
}

/** An account has no more than this many; those that have expired make room. */
export const MAX_TOKENS = 100;
const NOTE_USE_MS = 60_000;

const SHAPE = /^rwt_([0-9a-f]{16})_([\w-]{43})$/;

/** The tokens of one installation. */
export class Tokens {
  readonly #store: Store;
  readonly #clock: Clock;

  constructor(store: Store, clock: Clock = localClock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Whether a string has the form of our tokens. */
  static isToken(text: string): boolean {
    return SHAPE.test(text);
  }

  /** Makes a token; `token` is shown here and nowhere else. */
  async create(wish: NewToken): Promise<{ readonly info: TokenInfo; readonly token: string }> {
    const { account, ...limits } = wish;
    const { username } = account;
    await this.#makeRoom(username);
    const id = randomBytes(8).toString("hex");
    const secret = randomBytes(32).toString("base64url");
    const createdAt = Math.floor(this.#clock.now());
    const info: TokenInfo = { id, username, ...limits, createdAt, lastUsedAt: null };
    const key = keys.token(id);
    await createRecords(this.#store, {
      [key]: { ...info, accountId: account.id, hash: digest(secret) },
    });
    // Concurrent requests may all have found room. Each that now finds too many tokens removes its own.
    if ((await this.list(username)).length > MAX_TOKENS) {
      await this.#store.delete(key);
      throw new TooManyTokensError(username, MAX_TOKENS);
    }
    return { info, token: `rwt_${id}_${secret}` };
  }

  /** The token with this secret; undefined if it is wrong, expired or revoked. */
  async check(
    text: string,
    accountOf: (username: string) => Promise<Account | undefined>,
  ): Promise<{ readonly info: TokenInfo; readonly account: Account } | undefined> {
    const [, id, secret] = SHAPE.exec(text) ?? [];
    if (id === undefined || secret === undefined) return undefined;
    const stored = tokenOf(await this.#store.get(keys.token(id)));
    // Compared even if there is no such token, so that the response time does not reveal which ids exist.
    const right = timingSafeEqual(
      Buffer.from(digest(secret)),
      Buffer.from(stored?.hash ?? digest("")),
    );
    if (stored === undefined || !right || this.#isOver(stored)) return undefined;
    const account = await accountOf(stored.username);
    if (account === undefined || account.id !== stored.accountId) return undefined;
    await this.#noteUse(stored).catch(() => {}); // a store that takes no writes for now refuses no token
    return { info: infoOf(stored), account };
  }

  /** All tokens, or those of one account. */
  async list(username?: string): Promise<TokenInfo[]> {
    const { entries } = await rangeAll(this.#store, keys.tokens);
    return entries
      .map(tokenOf)
      .filter((token) => token !== undefined)
      .filter((token) => username === undefined || token.username === username)
      .map(infoOf);
  }

  /** A page of all tokens, or of those of one account. */
  page(
    request: PageRequest & { readonly username?: string | undefined },
  ): Promise<Page<TokenInfo>> {
    const { username, ...paging } = request;
    const itemOf = (entry: Entry): TokenInfo | undefined => {
      const token = tokenOf(entry);
      const wanted = token && (username === undefined || token.username === username);
      return wanted ? infoOf(token) : undefined;
    };
    return recordPage(this.#store, { ...paging, prefix: keys.tokens, itemOf });
  }

  async get(id: string): Promise<TokenInfo> {
    const token = /^[0-9a-f]{16}$/.test(id)
      ? tokenOf(await this.#store.get(keys.token(id)))
      : undefined;
    if (token === undefined) throw new UnknownTokenError(id);
    return infoOf(token);
  }

  /** Whether it is neither revoked nor expired; its owner is not checked. */
  async isLive(id: string): Promise<boolean> {
    const token = tokenOf(await this.#store.get(keys.token(id)));
    return token !== undefined && !this.#isOver(token);
  }

  /** Ends a token at once. */
  async revoke(id: string): Promise<void> {
    await this.get(id);
    await this.#store.delete(keys.token(id));
  }

  /** Ends every token of an account. */
  async removeAll(username: string): Promise<void> {
    for (const { id } of await this.list(username)) await this.#store.delete(keys.token(id));
  }

  async #makeRoom(username: string): Promise<void> {
    let kept = 0;
    for (const token of await this.list(username)) {
      if (this.#isOver(token)) await this.#store.delete(keys.token(token.id));
      else kept++;
    }
    if (kept >= MAX_TOKENS) throw new TooManyTokensError(username, MAX_TOKENS);
  }

  #isOver({ expiresAt }: TokenInfo): boolean {
    return expiresAt !== null && expiresAt <= this.#clock.now();
  }

  /** At most once a minute: a request should not cost a write. A token that was revoked stays revoked. */
  async #noteUse({ id, lastUsedAt }: StoredToken): Promise<void> {
    const now = Math.floor(this.#clock.now());
    if (lastUsedAt !== null && now - lastUsedAt < NOTE_USE_MS) return;
    const key = keys.token(id);
    const entry = await this.#store.get(key);
    const stored = tokenOf(entry);
    if (entry === undefined || stored === undefined) return;
    await this.#store.txn({
      if: [unchanged(key, entry)],
      do: [putRecord(key, { ...stored, lastUsedAt: now })],
    });
  }
}

/** Whether it can do less than its owner. */
export function isLimited({ permissions, groups }: TokenInfo): boolean {
  return permissions !== null || groups !== null;
}

function infoOf({ hash: _, accountId: __, ...info }: StoredToken): TokenInfo {
  return info;
}

/**
 * The token in an entry; undefined if nobody could use it. A limit that is missing or cannot be read allows
 * nothing: a token must not gain from what another program left out.
 */
function tokenOf(entry: Entry | undefined): StoredToken | undefined {
  const found = recordOf<Partial<Record<keyof StoredToken, unknown>>>(entry);
  if (entry === undefined || found === undefined) return undefined;
  const { hash, accountId, username } = found;
  if (typeof hash !== "string" || !/^[0-9a-f]{64}$/.test(hash)) return undefined;
  if (typeof accountId !== "number" || typeof username !== "string") return undefined;
  return {
    id: lastPart(entry.key),
    name: textOf(found.name),
    username,
    permissions: limitOf(found.permissions),
    groups: limitOf(found.groups),
    createdAt: timeOf(found.createdAt) ?? 0,
    expiresAt: found.expiresAt === null ? null : (timeOf(found.expiresAt) ?? 0),
    lastUsedAt: timeOf(found.lastUsedAt) ?? null,
    hash,
    accountId,
  };
}

/** What a token is limited to; null for no limit. */
function limitOf(value: unknown): readonly string[] | null {
  if (value === null) return null;
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

function digest(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}
