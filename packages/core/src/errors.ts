/**
 * Every error of core, and errors that several packages share. There is one class per code in the whole
 * product. A caller branches on `code` or `instanceof`; the message is for users and has the
 * offending value. Other packages extend `RopewayError` in their own `errors.ts`.
 *
 * An error keeps its values in `details` and reads them from there, never in its own fields. So an
 * error that was sent as `{ code, message, details }` is complete again after revive().
 */

/** The base class of all errors of Ropeway. `code` is stable; `details` has the offending values. */
export class RopewayError extends Error {
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: string, message: string, options: ErrorContext = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.details = options.details ?? {};
  }
}

/** The optional fields of an error besides its code and message. */
export interface ErrorContext {
  readonly cause?: unknown;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The classes of errors that can be received over a wire, by code. */
export type ErrorTable = Readonly<Record<string, ErrorClass>>;

/** A subclass of RopewayError, with any constructor. */
export type ErrorClass = abstract new (...args: never[]) => RopewayError;

/**
 * The error that `code`, `message` and `details` describe, as an instance of its class in `table`, or as
 * a plain RopewayError if the code is unknown.
 */
export function revive(table: ErrorTable, wire: RevivedError): RopewayError {
  const type = Object.hasOwn(table, wire.code) ? table[wire.code] : RopewayError;
  const { code, message, ...context } = wire;
  return Reflect.construct(RopewayError, [code, message, context], type as ErrorClass & NewTarget);
}

/** The input of revive(). */
export interface RevivedError extends ErrorContext {
  readonly code: string;
  readonly message: string;
}

type NewTarget = new () => RopewayError;

/** An option has a value that is not allowed; nothing was done. */
export class InvalidOptionError extends RopewayError {
  constructor(option: string, value: unknown, allowed: string) {
    super("INVALID_OPTION", `option ${option} is ${show(value)}, but must be ${allowed}`, {
      details: { option, value, allowed },
    });
  }
}

/** No connection could be made: the server is down, the name is unknown, or TLS failed. */
export class ConnectFailedError extends RopewayError {
  constructor(address: string, cause: unknown, note: string = "") {
    super("CONNECT_FAILED", `cannot connect to ${address}${note}: ${reasonOf(cause)}`, {
      cause,
      details: { address },
    });
  }
}

/** The server refused the user or password. */
export class AuthFailedError extends RopewayError {
  constructor(address: string, cause: unknown) {
    super("AUTH_FAILED", `${address} refused the user or password: ${reasonOf(cause)}`, {
      cause,
      details: { address },
    });
  }
}

/** The server is older than the libraries require. */
export class ServerTooOldError extends RopewayError {
  constructor(address: string, found: string, needed: string) {
    super("SERVER_TOO_OLD", `${address} is ${found}, but ${needed} is needed`, {
      details: { address, found, needed },
    });
  }
}

/**
 * The connection was lost while a command was in progress. The server may or may not have applied it:
 * repeat it only if repeating is harmless, or find out first.
 */
export class ConnectionLostError extends RopewayError {
  readonly maybeApplied: boolean = true;

  constructor(address: string, cause: unknown) {
    super("CONNECTION_LOST", `the connection to ${address} was lost: ${reasonOf(cause)}`, {
      cause,
      details: { address },
    });
  }
}

/** There was no connection for as long as the command was allowed to wait; it was never sent. */
export class NotConnectedError extends RopewayError {
  constructor(address: string, waitedMs: number, cause?: unknown) {
    const why = cause === undefined ? "" : `: ${reasonOf(cause)}`;
    super("NOT_CONNECTED", `no connection to ${address} for ${Math.round(waitedMs)} ms${why}`, {
      cause,
      details: { address, waitedMs },
    });
  }
}

/** The connection was closed by its owner; the command was not sent. */
export class ConnectionClosedError extends RopewayError {
  constructor(address: string) {
    super("CONNECTION_CLOSED", `the connection to ${address} was closed`, { details: { address } });
  }
}

/** The server replied to a command with an error; `prefix` is its first word, such as WRONGTYPE. */
export class ServerReplyError extends RopewayError {
  readonly prefix: string;

  constructor(command: string, reply: Error) {
    const prefix = wordOf(reply.message);
    super("SERVER_REPLY", `${command} failed: ${reply.message}`, {
      cause: reply,
      details: { command, prefix },
    });
    this.prefix = prefix;
  }
}

/** The first word of an error reply. Before Redis 7, the word of an error inside a script comes later. */
function wordOf(reply: string): string {
  const inScript = /^ERR Error running script \(call to \w+\): @user_script:\d+: (.*)$/s.exec(
    reply,
  );
  const word = /^(?:@user_script: \d+: )?-?([A-Z]{2,}) /.exec(inScript?.[1] ?? "")?.[1];
  return word ?? reply.split(" ", 1)[0] ?? "";
}

/** An AbortSignal ended a wait. */
export class AbortedError extends RopewayError {
  constructor(what: string, cause?: unknown) {
    super("ABORTED", `${what} was aborted`, { cause });
  }
}

/** An operation timed out. */
export class TimeoutError extends RopewayError {
  constructor(what: string, timeoutMs: number) {
    super("TIMEOUT", `${what} timed out after ${timeoutMs} ms`, { details: { timeoutMs } });
  }
}

/** A name (of a queue, service, node, lock, ...) is invalid; nothing was done. */
export class InvalidNameError extends RopewayError {
  constructor(what: string, value: unknown, allowed: string) {
    super("INVALID_NAME", `${what} is ${show(value)}, but must be ${allowed}`, {
      details: { what, value, allowed },
    });
  }
}

/** An argument of a method has a value that is not allowed; nothing was done. */
export class InvalidArgumentError extends RopewayError {
  constructor(argument: string, value: unknown, allowed: string) {
    super("INVALID_ARGUMENT", `${argument} is ${show(value)}, but must be ${allowed}`, {
      details: { argument, value, allowed },
    });
  }

  /** The name of the argument, as the caller knows it. */
  get argument(): string {
    return String(this.details.argument);
  }
}

/** A handle or role was used after close(). */
export class ClosedError extends RopewayError {
  constructor(what: string) {
    super("CLOSED", `${what} is closed`, { details: { what } });
  }
}

/** A lease has ended, or another process holds it now. The operation changed nothing. */
export class LeaseLostError extends RopewayError {
  constructor(what: string, fence?: number) {
    const which = fence === undefined ? "" : ` with fence ${fence}`;
    super("LEASE_LOST", `the lease of ${what}${which} was lost`, { details: { what, fence } });
  }
}

/** Too much work is in progress or waiting. The call was refused before it began. */
export class OverloadedError extends RopewayError {
  constructor(what: string, reason: string) {
    super("OVERLOADED", `${what} is overloaded: ${reason}`, { details: { what, reason } });
  }
}

/** Redis has no memory left (`maxmemory` with noeviction); nothing was stored. */
export class OutOfMemoryError extends RopewayError {
  constructor(what: string, cause?: unknown) {
    super("OUT_OF_MEMORY", `Redis has no memory left for ${what}`, { cause, details: { what } });
  }
}

/** A key has an unexpected Redis type; another program uses the same key. */
export class WrongKeyTypeError extends RopewayError {
  constructor(key: string, cause?: unknown) {
    super("WRONG_KEY_TYPE", `the key ${show(key)} holds an unexpected type`, {
      cause,
      details: { key },
    });
  }
}

/**
 * One line about any thrown value. Node's aggregate connect errors have an empty message. Always returns a
 * string, because code that reports a failure must not fail itself.
 */
export function reasonOf(cause: unknown): string {
  try {
    return lineOf(cause);
  } catch {
    return "an error that cannot be described"; // a getter or proxy that throws, or an error that contains itself
  }
}

function lineOf(cause: unknown): string {
  if (cause instanceof AggregateError && cause.errors.length > 0) return lineOf(cause.errors[0]);
  if (!(cause instanceof Error)) return show(cause);
  const { code, hostname } = cause as NodeJS.ErrnoException & { readonly hostname?: unknown };
  if (code === "ENOTFOUND" && typeof hostname === "string")
    return `no host is named ${show(hostname)}`;
  if (code === "EAI_AGAIN" && typeof hostname === "string") {
    return `the name server did not find the host ${show(hostname)} in time`;
  }
  const line: unknown = cause.message || cause.name;
  return typeof line === "string" ? line : show(line);
}

/** A value for a message: quoted, and short. */
export function show(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value) : stringify(value);
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}

function stringify(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value); // cyclic, or a BigInt inside
  }
}
