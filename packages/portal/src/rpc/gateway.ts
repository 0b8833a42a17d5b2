/**
 * JSON-RPC 2.0, to the letter, in front of a service. A message is one request or a batch; what comes
 * back is one response, an array of them in any order, or nothing at all if all were notifications.
 *
 *   not JSON                      one error -32700, id null
 *   [] or not a request           one error -32600, id null (in a batch: one per such element)
 *   no id                         sent as a notification, never gets a response, not even an error
 *   everything else               result or error with the request's own id
 */
import { OverloadedError } from "@ropeway/core";
import { RPC_CODES, RpcError } from "@ropeway/rpc";

/** How a request reaches the service. */
export interface GatewayTarget {
  call(method: string, params: unknown): Promise<unknown>;
  notify(method: string, params: unknown): Promise<void>;
  /** Called with an error whose message callers do not see. */
  onError(error: unknown): void;
}

type Id = string | number | null;

/** A valid request; without an id it is a notification. */
export interface GatewayRequest {
  readonly method: string;
  readonly params: unknown;
  readonly id: Id | undefined;
}

/** The response. */
export interface GatewayResponse {
  readonly jsonrpc: "2.0";
  readonly id: Id;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

const MOST_IN_BATCH = 1_000;

/** Returns the response to a message; undefined if there is none. */
export async function answerMessage(
  text: string,
  target: GatewayTarget,
): Promise<GatewayResponse | readonly GatewayResponse[] | undefined> {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return failure(null, RPC_CODES.PARSE_ERROR, "Parse error");
  }
  if (!Array.isArray(message)) return answerOne(message, target);
  if (message.length === 0 || message.length > MOST_IN_BATCH) {
    const why = `Invalid Request: a batch has 1 to ${MOST_IN_BATCH} requests`;
    return failure(null, RPC_CODES.INVALID_REQUEST, why);
  }
  const answers = await Promise.all(message.map((each) => answerOne(each, target)));
  const responses = answers.filter((answer) => answer !== undefined);
  return responses.length === 0 ? undefined : responses;
}

/** Reads one request; undefined if it is invalid. */
export function readRequest(value: unknown): GatewayRequest | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const { jsonrpc, method, params, id } = value as Record<string, unknown>;
  if (jsonrpc !== "2.0" || typeof method !== "string" || !isId(id)) return undefined;
  if (params !== undefined && (typeof params !== "object" || params === null)) return undefined;
  return { method, params: params ?? [], id };
}

/** "rpc.*" is reserved, and any other dot would make the method one of another service. */
export function isCallable(method: string): boolean {
  return method !== "" && !method.includes(".");
}

/** Whether callers see the message of an error. */
export function isTold(error: unknown): boolean {
  return error instanceof RpcError || error instanceof OverloadedError;
}

/** An error as callers may see it: internal errors have no details. */
export function errorOf(error: unknown): NonNullable<GatewayResponse["error"]> {
  if (error instanceof RpcError) return error.toWire();
  if (error instanceof OverloadedError) {
    return { code: RPC_CODES.OVERLOADED, message: error.message, data: error.details };
  }
  return { code: RPC_CODES.INTERNAL, message: "Internal error" };
}

async function answerOne(
  value: unknown,
  target: GatewayTarget,
): Promise<GatewayResponse | undefined> {
  const request = readRequest(value);
  if (request === undefined) return failure(null, RPC_CODES.INVALID_REQUEST, "Invalid Request");
  const { method, params, id } = request;
  try {
    if (id === undefined) {
      if (isCallable(method)) await target.notify(method, params);
      return undefined;
    }
    if (!isCallable(method)) return failure(id, RPC_CODES.METHOD_NOT_FOUND, "Method not found");
    return { jsonrpc: "2.0", id, result: (await target.call(method, params)) ?? null };
  } catch (error) {
    if (!isTold(error)) target.onError(error);
    return id === undefined ? undefined : { jsonrpc: "2.0", id, error: errorOf(error) };
  }
}

/** A number beyond 2^53 has lost digits by now: the response would carry another id than the request. */
function isId(id: unknown): id is Id | undefined {
  if (typeof id === "number") return Math.abs(id) <= Number.MAX_SAFE_INTEGER;
  return id === undefined || id === null || typeof id === "string";
}

function failure(id: Id, code: number, message: string): GatewayResponse {
  return { jsonrpc: "2.0", id, error: { code, message } };
}
