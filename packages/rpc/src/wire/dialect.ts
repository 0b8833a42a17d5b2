/**
 * What the engine asks of a wire: where things are pushed and popped, and how a call, an answer and a
 * report of progress are written. Everything else (deadlines, streams, sessions, retries) is the same
 * for both wires, because members that a peer does not know are ignored by it.
 */
import { InvalidRequestError, ParseError, type WireError } from "../errors.ts";
import type { CallKeys } from "../keys.ts";

/** A call as its caller wants it sent. */
export interface OutgoingCall {
  readonly method: string;
  readonly params: unknown;
  readonly id: string;
  /** ms of Redis time; undefined: no deadline. */
  readonly deadline: number | undefined;
  /** Answer into this list instead of the documented response key. */
  readonly replyTo?: string | undefined;
  readonly notification?: boolean | undefined;
  /** Report progress. */
  readonly track?: boolean | undefined;
  readonly traceparent?: string | undefined;
  /** How many stream items the worker may send ahead; its presence asks for a stream. */
  readonly window?: number | undefined;
  readonly session?: SessionMark | undefined;
}

/** Which session a call belongs to, and how often that session has been mapped so far. */
export interface SessionMark {
  readonly client: string;
  readonly epoch: number;
}

/** A call as a worker has read it. */
export interface IncomingCall {
  readonly id: string;
  readonly method: string;
  readonly params: unknown;
  readonly deadline: number | undefined;
  readonly replyTo: string | undefined;
  readonly notification: boolean;
  readonly track: boolean;
  readonly traceparent: string | undefined;
  readonly window: number | undefined;
  readonly session: SessionMark | undefined;
}

/** One element of a `process` list. */
export interface Progress {
  /** ms since 1970, Redis time. */
  readonly time: number;
  /** 0 to 1. */
  readonly percent: number;
  readonly message: string;
}

/** What a popped answer turned out to be; a result unless there is an error. */
export interface IncomingAnswer {
  readonly result?: unknown;
  readonly error?: unknown;
}

/** One of the two wires. */
export interface Dialect {
  readonly name: "jsonrpc" | "kw";
  readonly keys: CallKeys;
  readonly push: "LPUSH" | "RPUSH";
  readonly popSide: "RIGHT" | "LEFT";
  /** Seconds that a request list lives after each push; undefined: for ever. */
  readonly requestTtlSeconds: number | undefined;

  /** The text of a call. */
  encodeCall(call: OutgoingCall): string;
  /**
   * What stands between head and params in the plainest calls of a method, for those who make many of
   * them; undefined if every call is different.
   */
  plainMiddle(method: string, replyTo: string): string | undefined;
  /** Reads a popped call; throws RpcError with what can be said about it. `method` is the list's. */
  decodeCall(text: string, method: string | undefined): IncomingCall;
  /** The text of a result; `addressed` when it goes to a shared list and must say whose it is. */
  encodeResult(id: string, result: string, addressed: boolean): string;
  encodeError(id: string, error: WireError, addressed: boolean): string;
  /** Reads one parsed answer; undefined if it is none. */
  decodeAnswer(value: Readonly<Record<string, unknown>>): IncomingAnswer | undefined;
  encodeProgress(progress: Progress): string;
  decodeProgress(value: Readonly<Record<string, unknown>>): Progress;
  /** What submit() gives and poll() takes: enough to find the response key again. */
  ticket(method: string, id: string): string;
  readTicket(ticket: string): { readonly method: string; readonly id: string };
}

/** Parses a message that must be a JSON object. */
export function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new ParseError(text, error);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new InvalidRequestError("it is not a JSON object", value);
  }
  return value as Record<string, unknown>;
}

/** The id of a message, which some clients write as a number; undefined if it has no usable one. */
export function readId(value: unknown): string | undefined {
  if (typeof value === "string" && value !== "" && value.length <= 256) return value;
  return typeof value === "number" && Number.isFinite(value) ? String(value) : undefined;
}

/** A text that is there, of a member that may be anything: a wrong one counts as absent. */
export function readText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** How many stream items the caller allows. */
export function readWindow(value: unknown): number | undefined {
  return typeof value === "number" && value >= 1 ? Math.floor(value) : undefined;
}

/** The session a call belongs to. */
export function readSession(value: unknown): SessionMark | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { c, e } = value as { c?: unknown; e?: unknown };
  return typeof c === "string" && typeof e === "number" ? { client: c, epoch: e } : undefined;
}

/** The members that we add to both wires, as text behind the head, each with its leading comma. */
export function writeAddedMembers(call: OutgoingCall): string {
  let text = "";
  if (call.traceparent !== undefined) text += `,"tp":${JSON.stringify(call.traceparent)}`;
  if (call.window !== undefined) text += `,"st":${call.window}`;
  if (call.session !== undefined) {
    const { client, epoch } = call.session;
    text += `,"ss":{"c":${JSON.stringify(client)},"e":${epoch}}`;
  }
  return text;
}
