/**
 * Puts every change that comes over HTTP into the audit log: every request with a method that changes
 * something, once the caller is known, and every login. Requests without an account are only in the
 * access log; otherwise a stranger could push real entries out. For the same reason, a limited number of
 * refused requests of one account is recorded per hour; the access log has the rest.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { LoginFailedError } from "../errors.ts";
import { loggedPath } from "../http/logged-path.ts";
import type { AuditEntry, AuditLog } from "./audit-log.ts";
import { basicCredentials } from "./basic.ts";
import { usernameOf } from "./credentials.ts";
import { addressOf } from "./place.ts";
import { subjectOf } from "./subject.ts";
import type { Account } from "./users.ts";

const READING = new Set(["GET", "HEAD", "OPTIONS"]);
const TRIM_EVERY = 1_000;
/** Refused requests of one account that each portal notes per hour. */
export const REFUSED_PER_HOUR = 100;
const HOUR_MS = 3_600_000;
/** The client disconnected before it had sent its request. */
const CLIENT_GONE = 499;

type AccountFinder = (username: string) => Promise<Account | undefined>;

/** Notes requests of one portal. */
export class Auditor {
  readonly #log: AuditLog;
  readonly #accountOf: AccountFinder;
  /** Requests that come together with one password share its check and its error: one entry. */
  readonly #failedLogins = new WeakSet<LoginFailedError>();
  /** What notes the end of a request. */
  readonly #open = new WeakMap<FastifyRequest, (status: number) => void>();
  readonly #running = new WeakSet<FastifyRequest>();
  /** By account, in this hour. */
  readonly #refused = new Map<string, number>();
  #hour = 0;
  /** The first entry of a process trims too: one that restarts often would never reach the count. */
  #count = TRIM_EVERY - 1;

  /** `accountOf` finds an account by its name. */
  constructor(log: AuditLog, accountOf: AccountFinder) {
    this.#log = log;
    this.#accountOf = accountOf;
  }

  /** Notes that a change is about to be made; rejects if it cannot, and then nothing is changed. */
  async begin(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (!this.#concerns(request)) return;
    if (request.caller === null) {
      this.#whenEnded(request, reply, (status) => this.#noteLogin(request, status));
      return;
    }
    const entry = await this.#write(request, this.#draft(request));
    this.#whenEnded(request, reply, (status) => {
      const actor = request.caller?.account.username ?? entry.actor;
      this.#log
        .complete(
          { ...entry, actor, subject: subjectOf(request) },
          { status, outcome: outcomeOf(status) },
        )
        .catch((error) => request.log.error({ err: error }, "an audit entry was not completed"));
    });
  }

  /** Writes a new entry. Those of logins and of refused requests count too: they alone could fill the log. */
  async #write(request: FastifyRequest, draft: Omit<AuditEntry, "id" | "at">): Promise<AuditEntry> {
    const entry = await this.#log.begin(draft);
    this.#count += 1;
    if (this.#count % TRIM_EVERY === 0) {
      this.#log
        .trim()
        .catch((error) => request.log.warn({ err: error }, "the audit log was not trimmed"));
    }
    return entry;
  }

  /** The handler begins: from now on its result counts, also if the client does not wait for it. */
  running(request: FastifyRequest): void {
    this.#running.add(request);
  }

  /** The handler, or what refused the request, has responded. */
  answered(request: FastifyRequest, status: number): void {
    const end = this.#open.get(request);
    this.#open.delete(request);
    end?.(status);
  }

  /**
   * Calls a function once with how the request ended. A client that disconnects does not stop the handler:
   * the change may still be made, and its entry must not say that it failed.
   */
  #whenEnded(request: FastifyRequest, reply: FastifyReply, end: (status: number) => void): void {
    this.#open.set(request, end);
    if (reply.raw.destroyed) this.answered(request, CLIENT_GONE); // while the entry was written
    reply.raw.once("close", () => {
      if (reply.raw.writableFinished) this.answered(request, reply.raw.statusCode);
      else if (!this.#running.has(request)) this.answered(request, CLIENT_GONE);
    });
  }

  /**
   * Notes a login when it has passed or failed. Logins that were throttled, aborted or malformed are left
   * out: those that failed are limited per address and account, so no client can fill the log with them.
   * A name that no account has may be a password in the wrong field, and is not kept.
   */
  #noteLogin(request: FastifyRequest, status: number): void {
    if (status !== 201 && status !== 401) return;
    const { username } = (request.body ?? {}) as { readonly username?: unknown };
    this.#note(request, username, status);
  }

  /** Notes a wrong user name or password in an Authorization header, as a failed login. */
  loginFailed(request: FastifyRequest, error: LoginFailedError): void {
    if (this.#failedLogins.has(error)) return;
    this.#failedLogins.add(error);
    this.#note(request, basicCredentials(request.headers.authorization)?.username, 401);
  }

  #note(request: FastifyRequest, username: unknown, status: number): void {
    const name = usernameOf(username);
    const end = { status, outcome: outcomeOf(status) };
    const note = async () => {
      const account = name === undefined ? undefined : await this.#accountOf(name);
      const subject = account === undefined ? "" : `user ${account.username}`;
      const draft = { ...this.#draft(request), actor: account?.username ?? "-", subject };
      await this.#log.complete(await this.#write(request, draft), end);
    };
    note().catch((error) => request.log.error({ err: error }, "a login was not audited"));
  }

  /** Notes a change that the guard refused. */
  async refused(request: FastifyRequest, status: number): Promise<void> {
    if (!this.#concerns(request) || request.caller === null) return;
    if (!this.#hasRoomFor(request.caller.account.username)) return;
    const entry = await this.#write(request, this.#draft(request));
    await this.#log.complete(entry, { status, outcome: "refused" });
  }

  #hasRoomFor(username: string): boolean {
    const hour = Math.floor(performance.now() / HOUR_MS);
    if (hour !== this.#hour) this.#refused.clear();
    this.#hour = hour;
    const count = (this.#refused.get(username) ?? 0) + 1;
    this.#refused.set(username, count);
    return count <= REFUSED_PER_HOUR;
  }

  #concerns(request: FastifyRequest): boolean {
    if (request.is404 || READING.has(request.method)) return false;
    const { url, config } = request.routeOptions;
    return config.permission !== "public" || url === "/api/session";
  }

  #draft(request: FastifyRequest): Omit<AuditEntry, "id" | "at"> {
    const { method, caller } = request;
    return {
      actor: caller?.account.username ?? "-",
      via: caller?.via ?? "-",
      from: addressOf(request),
      action: `${method} ${request.routeOptions.url ?? ""}`,
      path: loggedPath(request.url).slice(0, 500),
      subject: subjectOf(request),
      requestId: request.id,
      outcome: "started",
      status: 0,
    };
  }
}

/** A request that ended with 500 or more may have made its change, because a response of the store was lost. */
function outcomeOf(status: number): AuditEntry["outcome"] {
  if (status < 400) return "done";
  if (status >= 500) return "started";
  return status === 401 || status === 403 ? "refused" : "failed";
}
