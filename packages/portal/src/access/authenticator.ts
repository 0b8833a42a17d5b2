/**
 * From the credentials of a request to its account:
 *
 *   Authorization: Bearer rws_...      a session's token            \
 *   Cookie: ropeway_session=rws_...    the same, from a browser      }-->  Caller
 *   Authorization: Basic ...           user name and password       /
 *   Authorization: Bearer rwt_...      an API token                /
 *
 * Checking a password is slow on purpose. Basic sends it with every request, so one that was right is
 * remembered for a while, as a keyed digest, and only as long as the account still has the same hash.
 */
import { createHmac, randomBytes } from "node:crypto";
import { OverloadedError } from "@ropeway/core";
import { sleep } from "@ropeway/core/internal";
import {
  LoginFailedError,
  PasswordConflictError,
  TooManyLoginsError,
  UnauthenticatedError,
} from "../errors.ts";
import { basicCredentials } from "./basic.ts";
import { usernameOf } from "./credentials.ts";
import { deviceOf } from "./device.ts";
import type { PasswordHasher } from "./hasher.ts";
import type { AccessStore, LoginAttempt, SessionLife } from "./store.ts";
import { type TokenInfo, Tokens } from "./tokens.ts";
import type { Account } from "./users.ts";

/** The caller of a request. */
export interface Caller {
  readonly account: Account;
  readonly via: "cookie" | "bearer" | "basic" | "token";
  /** The API token, if one was sent. */
  readonly token?: TokenInfo | undefined;
  /** The session, unless a password was sent along. */
  readonly session: { readonly token: string; readonly expiresAt: number } | undefined;
}

/** The credentials of a login. */
export interface Credentials {
  readonly username: string;
  readonly password: string;
  /** Where the login comes from; see place.ts. */
  readonly place: string;
  /** The device cookie of their browser; see device.ts. */
  readonly device?: string | undefined;
}

/** What an authenticator works with. */
export interface AuthenticatorPlan {
  readonly store: AccessStore;
  readonly tokens: Tokens;
  readonly hasher: PasswordHasher;
  readonly life: SessionLife;
  /** Called with each login attempt. */
  onLogin(outcome: LoginOutcome): void;
}

/** The outcome of a login attempt. */
export type LoginOutcome = "passed" | "failed" | "throttled";

const TOKEN = /^rws_[\w-]{43}$/;
const REMEMBER_MS = 60_000;
const REMEMBER_MOST = 1_000;
/** How many passwords of one user from one place are checked at a time: a small part of the maximum in hasher.ts. */
const CHECKS_OF_ONE = 5;
/** How long the session that sets a new password may stay of the earlier generation. */
const KEEP_WITHIN_MS = 1_000;

/** Authenticates requests. */
export class Authenticator {
  readonly #plan: AuthenticatorPlan;
  readonly #secret = randomBytes(32);
  readonly #known = new Map<
    string,
    { readonly account: Promise<Account>; readonly until: number }
  >();

  /** How many checks of a user from a place are under way. */
  readonly #checks = new Map<string, number>();

  constructor(plan: AuthenticatorPlan) {
    this.#plan = plan;
  }

  /**
   * The caller with these headers; undefined if they have no credentials. Throws if the credentials are
   * invalid.
   */
  async identify(
    authorization: string | undefined,
    cookie: string | undefined,
    place: string,
  ): Promise<Caller | undefined> {
    if (authorization === undefined) {
      return cookie === undefined ? undefined : this.#bySession(cookie, "cookie");
    }
    const [scheme = "", value = ""] = authorization.split(" ", 2);
    if (scheme.toLowerCase() === "bearer") {
      return Tokens.isToken(value) ? this.#byToken(value) : this.#bySession(value, "bearer");
    }
    if (scheme.toLowerCase() === "basic") return this.#byPassword(authorization, place);
    throw new UnauthenticatedError("the Authorization header must be Bearer or Basic");
  }

  /** The account with this name and password; slow and throttled. The error does not say which of them was wrong. */
  async checkPassword(credentials: Credentials): Promise<Account> {
    const { store, hasher, onLogin } = this.#plan;
    const { password, place } = credentials;
    const name = usernameOf(credentials.username);
    const account = name === undefined ? undefined : await store.account(name);
    const attempt: LoginAttempt = {
      username: name ?? "?",
      generation: account?.generation ?? 0,
      place,
      device: account && deviceOf(credentials.device, account),
    };
    const waitMs = await store.beginLogin(attempt);
    if (waitMs > 0) {
      onLogin("throttled");
      throw new TooManyLoginsError(waitMs);
    }
    const checked = this.#inTurn(credentials, () =>
      account === undefined
        ? hasher.verifyNobody(password)
        : hasher.verify(account.passwordHash, password),
    );
    const right = await checked.catch(async (error: unknown) => {
      await store.cancelLogin(attempt); // the hasher was busy: that does not count as a failed login
      throw error;
    });
    if (account === undefined || !right) {
      onLogin("failed");
      throw new LoginFailedError();
    }
    await store.endLogin(attempt);
    onLogin("passed");
    return this.#refreshHash(account, password);
  }

  /** Opens a session of the account. */
  async open(account: Account): Promise<{ readonly token: string; readonly expiresAt: number }> {
    const token = `rws_${randomBytes(32).toString("base64url")}`;
    const expiresAt = await this.#plan.store.openSession(token, account, this.#plan.life);
    return { token, expiresAt };
  }

  /**
   * The caller with its present role, if it would be authenticated now; otherwise undefined. Does
   * not count as use of its session.
   */
  async refreshed(caller: Caller): Promise<Caller | undefined> {
    const { store, tokens } = this.#plan;
    const { account, session, token } = caller;
    const current = await store.account(account.username);
    if (current === undefined || current.id !== account.id) return undefined;
    const now = { ...caller, account: current };
    if (token !== undefined) return (await tokens.isLive(token.id)) ? now : undefined;
    if (session === undefined) {
      return current.passwordHash === account.passwordHash ? now : undefined;
    }
    const stored = await store.session(session.token);
    if (stored === undefined) return undefined;
    return (await this.#isOf(current, { ...stored, token: session.token })) ? now : undefined;
  }

  /** Ends the caller's session, if it has one. */
  async end(caller: Caller): Promise<void> {
    if (caller.session !== undefined) await this.#plan.store.dropSession(caller.session.token);
  }

  /** Sets a new password; every session of the account ends but the caller's. */
  async changePassword(caller: Caller, credentials: Credentials, next: string): Promise<void> {
    const account = await this.checkPassword(credentials);
    const hashed = await this.#inTurn(credentials, () => this.#plan.hasher.hash(next));
    const done = await this.#plan.store.changePassword(account, hashed, caller.session?.token);
    if (!done) throw new PasswordConflictError(account.username);
  }

  /**
   * Keeps one client from using the whole hasher. Wrong passwords are throttled soon, but a client that signs
   * in all the time with a correct one would keep all others out.
   */
  async #inTurn<T>({ username, place }: Credentials, work: () => Promise<T>): Promise<T> {
    const owner = `${username.toLowerCase()} ${place}`;
    const count = this.#checks.get(owner) ?? 0;
    if (count >= CHECKS_OF_ONE) {
      throw new OverloadedError("the portal", "too many logins of this user at once");
    }
    this.#checks.set(owner, count + 1);
    try {
      return await work();
    } finally {
      const left = (this.#checks.get(owner) ?? 1) - 1;
      if (left > 0) this.#checks.set(owner, left);
      else this.#checks.delete(owner);
    }
  }

  async #bySession(token: string, via: "cookie" | "bearer"): Promise<Caller> {
    const { store, life } = this.#plan;
    const over = new UnauthenticatedError("the session is over; sign in again");
    if (!TOKEN.test(token)) throw over;
    const session = await store.touchSession(token, life);
    if (session === undefined) throw over;
    const account = await store.account(session.user);
    if (account === undefined || !(await this.#isOf(account, { ...session, token }))) {
      await store.dropSession(token);
      throw over;
    }
    return { account, via, session: { token, expiresAt: session.expiresAt } };
  }

  /**
   * Whether the session is of the account's generation. The session that sets a new password is of the earlier
   * generation for a moment, so a session of that generation is read again before it is given up.
   */
  async #isOf(
    account: Account,
    { generation, token }: { readonly generation: number; readonly token: string },
  ): Promise<boolean> {
    if (generation === account.generation) return true;
    if (generation !== account.generation - 1) return false;
    await sleep(KEEP_WITHIN_MS);
    const later = await this.#plan.store.session(token);
    return later?.generation === account.generation;
  }

  async #byToken(text: string): Promise<Caller> {
    const { store, tokens } = this.#plan;
    const found = await tokens.check(text, (username) => store.account(username));
    if (found === undefined) {
      throw new UnauthenticatedError("the API token is wrong, expired or revoked");
    }
    return { account: found.account, via: "token", token: found.info, session: undefined };
  }

  async #byPassword(authorization: string, place: string): Promise<Caller> {
    const given = basicCredentials(authorization);
    if (given === undefined) throw new UnauthenticatedError("the Basic credentials have no colon");
    const credentials = { ...given, place };
    const digest = createHmac("sha256", this.#secret)
      .update(`${given.username}:${given.password}`)
      .digest("base64");
    const account = await (this.#remembered(digest) ?? this.#remember(digest, credentials));
    const current = await this.#plan.store.account(account.username);
    if (current?.passwordHash === account.passwordHash) {
      return { account: current, via: "basic", session: undefined };
    }
    this.#known.delete(digest);
    throw new LoginFailedError();
  }

  #remembered(digest: string): Promise<Account> | undefined {
    const entry = this.#known.get(digest);
    if (entry === undefined || entry.until < performance.now()) return undefined;
    return entry.account;
  }

  /** Requests that arrive together with the same password share one check. */
  #remember(digest: string, credentials: Credentials): Promise<Account> {
    const account = this.checkPassword(credentials);
    const oldest = this.#known.size < REMEMBER_MOST ? undefined : this.#known.keys().next().value;
    if (oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(digest, { account, until: performance.now() + REMEMBER_MS });
    account.catch(() => this.#known.delete(digest));
    return account;
  }

  /** A hash of an older cost can be replaced only here, where the password is known. */
  async #refreshHash(account: Account, password: string): Promise<Account> {
    const { store, hasher } = this.#plan;
    if (!hasher.isOutdated(account.passwordHash)) return account;
    const passwordHash = await hasher.hash(password);
    const done = await store.rehashPassword(account, passwordHash);
    return done ? { ...account, passwordHash } : account;
  }
}
