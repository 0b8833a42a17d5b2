/**
 * API tokens, under /tasks/token/{id}. The secret is shown once, when the token is made; the store has
 * its SHA-256, which is enough for a secret of 256 random bits. A token can do what its owner can, or
 * less, and nothing once it has expired, was revoked, or its owner is gone.
 *
 *   rwt_<id, 16 hex>_<secret, 43 base64url>
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { type Store, UnknownTokenError } from "@ropeway/cluster";
import { absent, keys, putRecord, rangeAll, recordOf } from "@ropeway/cluster/internal";

/** What may be told of a token. */
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
}

interface StoredToken extends TokenInfo {
  readonly hash: string;
}

/** A new token. */
export type NewToken = Pick<
  TokenInfo,
  "name" | "username" | "permissions" | "groups" | "expiresAt"
>;

const SHAPE = /^rwt_([0-9a-f]{16})_([\w-]{43})$/;

/** The tokens of one installation. */
export class Tokens {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Whether a text looks like a token of ours. */
  static isToken(text: string): boolean {
    return SHAPE.test(text);
  }

  /** Makes a token; `token` is shown here and nowhere else. */
  async create(wish: NewToken): Promise<{ readonly info: TokenInfo; readonly token: string }> {
    const id = randomBytes(8).toString("hex");
    const secret = randomBytes(32).toString("base64url");
    const info: TokenInfo = { id, ...wish, createdAt: Date.now() };
    const key = keys.token(id);
    await this.#store.txn({
      if: [absent(key)],
      do: [putRecord(key, { ...info, hash: digest(secret) })],
    });
    return { info, token: `rwt_${id}_${secret}` };
  }

  /** The token behind a text; undefined if it is wrong, expired or revoked. */
  async check(text: string): Promise<TokenInfo | undefined> {
    const [, id, secret] = SHAPE.exec(text) ?? [];
    if (id === undefined || secret === undefined) return undefined;
    const stored = recordOf<StoredToken>(await this.#store.get(keys.token(id)));
    // Compared also if there is none, so that time does not tell which ids exist.
    const right = timingSafeEqual(
      Buffer.from(digest(secret)),
      Buffer.from(stored?.hash ?? digest("")),
    );
    if (stored === undefined || !right) return undefined;
    if (stored.expiresAt !== null && stored.expiresAt <= Date.now()) return undefined;
    return infoOf(stored);
  }

  /** All tokens, or those of one account. */
  async list(username?: string): Promise<TokenInfo[]> {
    const { entries } = await rangeAll(this.#store, keys.tokens);
    return entries
      .map((entry) => recordOf<StoredToken>(entry))
      .filter((token) => token !== undefined)
      .filter((token) => username === undefined || token.username === username)
      .map(infoOf);
  }

  async get(id: string): Promise<TokenInfo> {
    const token = /^[0-9a-f]{16}$/.test(id)
      ? recordOf<StoredToken>(await this.#store.get(keys.token(id)))
      : undefined;
    if (token === undefined) throw new UnknownTokenError(id);
    return infoOf(token);
  }

  /** Ends a token at once. */
  async revoke(id: string): Promise<void> {
    await this.get(id);
    await this.#store.delete(keys.token(id));
  }
}

function infoOf({ hash: _, ...info }: StoredToken): TokenInfo {
  return info;
}

function digest(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}
