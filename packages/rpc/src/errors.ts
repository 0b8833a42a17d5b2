/**
 * Every error of calls. `code` is the stable word to branch on. `rpcCode` is its JSON-RPC 2.0 number
 * on the wire, so an error means the same on both sides and in both wires, and is received as
 * the same class: `instanceof` works for the caller as it does in the worker.
 *
 * An error keeps its values in `details`. On the wire they are sent as `data`.
 */
import {
  type ErrorContext,
  InvalidArgumentError,
  OverloadedError,
  RopewayError,
} from "@ropeway/core";
import { type ErrorTable, reasonOf, revive, show } from "@ropeway/core/internal";

/** The wire form of an error. */
export interface WireError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** The codes and their numbers. -32700..-32600 are JSON-RPC's own, -32099..-32000 are Ropeway's. */
export const RPC_CODES = {
  PARSE_ERROR: -32700,
  INVALID_REQUEST: -32600,
  METHOD_NOT_FOUND: -32601,
  INVALID_PARAMS: -32602,
  INTERNAL: -32603,
  HANDLER_FAILED: -32000,
  DEADLINE_EXCEEDED: -32001,
  CANCELLED: -32002,
  UNAVAILABLE: -32003,
  OVERLOADED: -32004,
  INVALID_RESULT: -32005,
  MESSAGE_TOO_LARGE: -32006,
  STREAM_BROKEN: -32007,
  SESSION_LOST: -32008,
  SERVER_CLOSING: -32009,
  APPLICATION_ERROR: -32010,
} as const;

/** One of the codes. */
export type RpcCode = keyof typeof RPC_CODES;

const WORDS: ReadonlyMap<number, RpcCode> = new Map(
  Object.entries(RPC_CODES).map(([word, number]) => [number, word as RpcCode]),
);

/** The base class of errors that are sent between caller and worker. */
export class RpcError extends RopewayError {
  constructor(code: RpcCode, message: string, options: RpcErrorOptions = {}) {
    const { rpcCode, data, details, cause } = options;
    super(code, message, {
      cause,
      details: {
        ...details,
        ...(rpcCode === undefined ? {} : { rpcCode }),
        ...(data === undefined ? {} : { data }),
      },
    });
  }

  /** The number on the wire. */
  get rpcCode(): number {
    return numberOf(this);
  }

  /** The values that the worker sent with the error. */
  get data(): unknown {
    return this.details.data;
  }

  /** The error as it is written to the wire. */
  toWire(): WireError {
    return toWire(this);
  }
}

/** The optional values of an RpcError. */
export interface RpcErrorOptions extends ErrorContext {
  readonly rpcCode?: number | undefined;
  readonly data?: unknown;
}

/** The message is not JSON. */
export class ParseError extends RpcError {
  constructor(text: string, cause?: unknown) {
    super("PARSE_ERROR", `the message is not JSON: ${show(text)}`, { cause });
  }
}

/** The message is JSON, but not a call. */
export class InvalidRequestError extends RpcError {
  constructor(why: string, value?: unknown, id?: string) {
    super("INVALID_REQUEST", `not a call: ${why}`, { details: { value: show(value), id } });
  }
}

/** The service has no such method. */
export class MethodNotFoundError extends RpcError {
  constructor(service: string, method: string) {
    super("METHOD_NOT_FOUND", `service ${show(service)} has no method ${show(method)}`, {
      details: { service, method },
    });
  }
}

/** The arguments do not match the method's schema; `data` lists the issues. */
export class InvalidParamsError extends RpcError {
  constructor(method: string, why: string, issues?: unknown) {
    super("INVALID_PARAMS", `the arguments of ${method} are not valid: ${why}`, { data: issues });
  }
}

/** The handler's result does not match the schema, or cannot be written as JSON. */
export class InvalidResultError extends RpcError {
  constructor(method: string, why: string, options?: RpcErrorOptions) {
    super("INVALID_RESULT", `the result of ${method} is not valid: ${why}`, options);
  }
}

/**
 * The handler threw an error it had not declared. Its message is masked unless the server was started
 * with `exposeErrors`.
 */
export class HandlerFailedError extends RpcError {
  constructor(message: string, options?: RpcErrorOptions) {
    super("HANDLER_FAILED", message, options);
  }

  /** The worker's stack trace, if the worker exposes it. */
  get traceback(): string | undefined {
    const { traceback } = (this.data ?? {}) as { traceback?: unknown };
    return typeof traceback === "string" ? traceback : undefined;
  }
}

/**
 * An error that a handler throws on purpose. The caller gets the same number, message and data. Use a
 * number outside -32768..-32000, which JSON-RPC reserves.
 */
export class ApplicationError extends RpcError {
  constructor(rpcCode: number, message: string, data?: unknown) {
    if (!Number.isInteger(rpcCode)) {
      throw new InvalidArgumentError("rpcCode", rpcCode, "a whole number");
    }
    super("APPLICATION_ERROR", message, { rpcCode, data });
  }
}

/** An internal error of Ropeway or of a gateway. The request was valid. */
export class InternalError extends RpcError {
  constructor(message: string = "internal error", options?: RpcErrorOptions) {
    super("INTERNAL", message, options);
  }
}

/** The call timed out: it got no response, or was not started, before its deadline. */
export class DeadlineExceededError extends RpcError {
  constructor(what: string, timeoutMs?: number) {
    const bound = timeoutMs === undefined ? "" : ` after ${Math.round(timeoutMs)} ms`;
    super("DEADLINE_EXCEEDED", `${what} timed out${bound}`, { details: { timeoutMs } });
  }
}

/** The caller cancelled the call. */
export class CancelledError extends RpcError {
  constructor(what: string, cause?: unknown) {
    super("CANCELLED", `${what} was cancelled`, { cause });
  }
}

/** The service has no live worker, and the caller did not want to wait for one. */
export class UnavailableError extends RpcError {
  constructor(service: string, why: string = `no live worker serves ${show(service)}`) {
    super("UNAVAILABLE", why, { details: { service } });
  }
}

/** A message is larger than `maxMessageBytes`. */
export class MessageTooLargeError extends RpcError {
  constructor(what: string, bytes: number, allowed: number) {
    super("MESSAGE_TOO_LARGE", `${what} has ${bytes} bytes, more than the ${allowed} allowed`, {
      details: { bytes, allowed },
    });
  }
}

/** A stream ended before its last item: the worker, the caller or a message was lost. */
export class StreamBrokenError extends RpcError {
  constructor(method: string, why: string) {
    super("STREAM_BROKEN", `the stream of ${method} broke: ${why}`, { details: { method } });
  }
}

/**
 * The node no longer owns the session. `details.begun` is true if the handler had started. A call that
 * had not started is sent again automatically.
 */
export class SessionLostError extends RpcError {
  constructor(group: string, begun: boolean) {
    super("SESSION_LOST", `the node no longer owns sessions of group ${show(group)}`, {
      details: { group, begun },
    });
  }

  /** The session group. */
  get group(): string {
    return String(this.details.group);
  }
}

/** The worker was closed before the call ended. */
export class ServerClosingError extends RpcError {
  constructor(service: string) {
    super("SERVER_CLOSING", `a worker of ${show(service)} was closed before the call ended`, {
      details: { service },
    });
  }
}

/** The class of each code that can be sent over the wire. */
const CLASSES: ErrorTable = {
  PARSE_ERROR: ParseError,
  INVALID_REQUEST: InvalidRequestError,
  METHOD_NOT_FOUND: MethodNotFoundError,
  INVALID_PARAMS: InvalidParamsError,
  INTERNAL: InternalError,
  HANDLER_FAILED: HandlerFailedError,
  DEADLINE_EXCEEDED: DeadlineExceededError,
  CANCELLED: CancelledError,
  UNAVAILABLE: UnavailableError,
  OVERLOADED: OverloadedError,
  INVALID_RESULT: InvalidResultError,
  MESSAGE_TOO_LARGE: MessageTooLargeError,
  STREAM_BROKEN: StreamBrokenError,
  SESSION_LOST: SessionLostError,
  SERVER_CLOSING: ServerClosingError,
  APPLICATION_ERROR: ApplicationError,
};

/** Codes whose `data` belongs to the application and is not read as details. */
const OPAQUE = new Set<RpcCode>([
  "HANDLER_FAILED",
  "APPLICATION_ERROR",
  "INVALID_PARAMS",
  "INVALID_RESULT",
]);

/** Converts an error of the wire into the error that the caller gets. */
export function errorFromWire(error: unknown): RopewayError {
  const wire = (typeof error === "object" && error !== null ? error : {}) as Partial<WireError>;
  const number = Number.isInteger(wire.code) ? (wire.code as number) : RPC_CODES.HANDLER_FAILED;
  const message = typeof wire.message === "string" ? wire.message : show(error);
  const code = WORDS.get(number) ?? "APPLICATION_ERROR";
  const { data } = wire;
  const own = !OPAQUE.has(code) && isRecord(data) ? data : {};
  const details = {
    ...own,
    ...(WORDS.has(number) ? {} : { rpcCode: number }),
    ...(data === undefined ? {} : { data }),
  };
  return revive(CLASSES, { code, message, details });
}

/** How much of an unexpected error its caller may see. */
export interface Exposure {
  /** Whether the message and stack of an undeclared error are sent. */
  readonly exposeErrors: boolean;
}

const MASKED = "the handler failed; the worker's log has the reason";

/** Converts what a handler threw into an error that can be sent. Never throws. */
export function errorForWire(thrown: unknown, exposure: Exposure): RopewayError {
  try {
    return readThrown(thrown, exposure);
  } catch {
    // A getter or proxy that throws when it is read.
    return new HandlerFailedError(exposure.exposeErrors ? reasonOf(thrown) : MASKED);
  }
}

function readThrown(thrown: unknown, { exposeErrors }: Exposure): RopewayError {
  // An error of a nested call must not report that this one had not started: it would be sent again.
  if (thrown instanceof SessionLostError) return new SessionLostError(thrown.group, true);
  if (isOurs(thrown)) return thrown;
  if (!exposeErrors) return new HandlerFailedError(MASKED, { cause: thrown });
  const name = thrown instanceof Error ? thrown.name : typeof thrown;
  const traceback = thrown instanceof Error ? thrown.stack : undefined;
  return new HandlerFailedError(reasonOf(thrown), { cause: thrown, data: { name, traceback } });
}

/** Whether an error has its own number on the wire. */
function isOurs(thrown: unknown): thrown is RopewayError {
  return thrown instanceof RpcError || thrown instanceof OverloadedError;
}

/** The wire form of an error that errorForWire() returned. */
export function toWire(error: RopewayError): WireError {
  const { data, rpcCode: _, ...rest } = error.details;
  const sent = data ?? (Object.keys(rest).length > 0 ? rest : undefined);
  return {
    code: numberOf(error),
    message: error.message,
    ...(isWritable(sent) ? { data: sent } : {}),
  };
}

function numberOf(error: RopewayError): number {
  const { rpcCode } = error.details;
  if (typeof rpcCode === "number") return rpcCode;
  return RPC_CODES[error.code as RpcCode] ?? RPC_CODES.INTERNAL;
}

/** Data that cannot be written as JSON (a cycle, a BigInt) must not prevent its error from arriving. */
function isWritable(data: unknown): boolean {
  try {
    return JSON.stringify(data) !== undefined;
  } catch {
    return false;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
