/**
 * Every error of calls. `code` is the stable word to branch on; `rpcCode` is the JSON-RPC 2.0 number
 * that stands for it on the wire, so that an error means the same on both sides and in both wires.
 */
import { type ErrorContext, RopewayError } from "@ropeway/core";
import { reasonOf, show } from "@ropeway/core/internal";

/** What an error looks like on the wire. */
export interface WireError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** The words and their numbers. -32700..-32600 are JSON-RPC's own, -32099..-32000 are ours. */
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
} as const;

/** One of the words. */
export type RpcCode = keyof typeof RPC_CODES;

const WORDS: ReadonlyMap<number, RpcCode> = new Map(
  Object.entries(RPC_CODES).map(([word, number]) => [number, word as RpcCode]),
);

/** The parent of every error that can travel between caller and worker. */
export class RpcError extends RopewayError {
  /** The number on the wire. */
  readonly rpcCode: number;
  /** What the worker sent along. */
  readonly data: unknown;

  constructor(code: RpcCode, message: string, options: RpcErrorOptions = {}) {
    super(code, message, options);
    this.rpcCode = options.rpcCode ?? RPC_CODES[code];
    this.data = options.data;
  }

  toWire(): WireError {
    const { rpcCode, message, data } = this;
    return { code: rpcCode, message, ...(isWritable(data) ? { data } : {}) };
  }
}

/** Data that cannot be written as JSON (a cycle, a BigInt) must not keep its error from arriving. */
function isWritable(data: unknown): boolean {
  try {
    return JSON.stringify(data) !== undefined;
  } catch {
    return false;
  }
}

/** What an RpcError may carry. */
export interface RpcErrorOptions extends ErrorContext {
  readonly rpcCode?: number;
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
    super("INVALID_REQUEST", `not a call: ${why}`, { details: { value, id } });
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

/** The arguments do not fit the method's schema; `data` lists the issues. */
export class InvalidParamsError extends RpcError {
  constructor(method: string, why: string, issues?: unknown) {
    super("INVALID_PARAMS", `the arguments of ${method} are not valid: ${why}`, { data: issues });
  }
}

/** What the handler returned does not fit the schema, or cannot be written as JSON. */
export class InvalidResultError extends RpcError {
  constructor(method: string, why: string, options?: RpcErrorOptions) {
    super("INVALID_RESULT", `the result of ${method} is not valid: ${why}`, options);
  }
}

/** The handler threw; message and data are the handler's. */
export class HandlerFailedError extends RpcError {
  constructor(message: string, options?: RpcErrorOptions) {
    super("HANDLER_FAILED", message, options);
  }
}

/** Thrown by a handler that wants its caller to get this number, message and data. */
export class ApplicationError extends RpcError {
  constructor(rpcCode: number, message: string, data?: unknown) {
    super("HANDLER_FAILED", message, { rpcCode, data });
  }
}

/** The call was not answered, or not begun, before its deadline. */
export class DeadlineExceededError extends RpcError {
  constructor(what: string, timeoutMs?: number) {
    const bound = timeoutMs === undefined ? "its deadline" : `${timeoutMs} ms`;
    super("DEADLINE_EXCEEDED", `${what} was not done within ${bound}`, { details: { timeoutMs } });
  }
}

/** The caller gave the call up. */
export class CancelledError extends RpcError {
  constructor(what: string, cause?: unknown) {
    super("CANCELLED", `${what} was cancelled`, { cause });
  }
}

/** No live worker serves this, and the caller did not want to wait for one. */
export class UnavailableError extends RpcError {
  constructor(service: string) {
    super("UNAVAILABLE", `no live worker serves ${show(service)}`, { details: { service } });
  }
}

/** The caller's own breaker or bulkhead refused the call; nothing was sent. */
export class OverloadedError extends RpcError {
  constructor(service: string, why: string) {
    super("OVERLOADED", `calls to ${show(service)} are refused: ${why}`, { details: { service } });
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

/** A stream ended without its end: its worker or a part of it is gone. */
export class StreamBrokenError extends RpcError {
  constructor(method: string, why: string) {
    super("STREAM_BROKEN", `the stream of ${method} broke: ${why}`);
  }
}

/** The session was given to another node while this one worked for it. */
export class SessionLostError extends RpcError {
  constructor(group: string) {
    super("SESSION_LOST", `this node is no longer a member of group ${show(group)}`);
  }
}

/** The server is closing and did not run the call. */
export class ServerClosingError extends RpcError {
  constructor(service: string) {
    super("SERVER_CLOSING", `a worker of ${show(service)} was closed before the call ended`);
  }
}

/** A service, method, node or group has a name that cannot stand in a key. */
export class InvalidNameError extends RopewayError {
  constructor(name: string) {
    super("INVALID_NAME", `the name ${show(name)} is empty or has a ":", "/" or space in it`, {
      details: { name },
    });
  }
}

/** A key holds what it should not; `key` says which. */
export class WrongKeyTypeError extends RopewayError {
  constructor(key: string, cause: unknown) {
    super("WRONG_KEY_TYPE", `the key ${show(key)} holds another type than it should`, {
      cause,
      details: { key },
    });
  }
}

/** The client or server was closed. */
export class RpcClosedError extends RopewayError {
  constructor(what: string) {
    super("RPC_CLOSED", `${what} was closed`);
  }
}

/** An error of the wire as the error its caller gets. */
export function errorFromWire(error: unknown): RpcError {
  const wire = (typeof error === "object" && error !== null ? error : {}) as Partial<WireError>;
  const number = Number.isInteger(wire.code) ? (wire.code as number) : RPC_CODES.HANDLER_FAILED;
  const message = typeof wire.message === "string" ? wire.message : show(error);
  const word = WORDS.get(number) ?? "HANDLER_FAILED";
  const options = { rpcCode: number, data: wire.data };
  return word === "HANDLER_FAILED"
    ? new HandlerFailedError(message, options)
    : new RpcError(word, message, options);
}

/** Anything a handler threw as an error that can travel; the stack stays here. */
export function errorForWire(thrown: unknown): RpcError {
  if (thrown instanceof RpcError) return thrown;
  const name = thrown instanceof Error ? thrown.name : typeof thrown;
  return new HandlerFailedError(reasonOf(thrown), { cause: thrown, data: { name } });
}

/** Params that cannot be written as JSON (a cycle, a BigInt) are the caller's mistake. */
export function paramsError(method: string, thrown: unknown): RpcError {
  if (thrown instanceof RpcError) return thrown;
  return new InvalidParamsError(method, `they cannot be written as JSON: ${reasonOf(thrown)}`);
}
