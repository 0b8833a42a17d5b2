/**
 * The interface of a wire: where messages are pushed and popped, and how a call, a response and a
 * progress report are written. Deadlines, streams, sessions and retries are the same for both wires,
 * because a peer ignores members that it does not know.
 *
 * A dialect shows what it supports by its members (`registry`, `sessions`, `replyLists`, ...). No other code
 * in the package tests its name or class.
 */
import { InvalidRequestError, ParseError, type WireError } from "../errors.ts";
import type { CallKeys, RegistryKeys, SessionKeys } from "../keys.ts";
import { writeHead } from "./head.ts";

/** A call to be sent. */
export interface OutgoingCall {
  readonly method: string;
  /** As JSON; see paramsJson(). */
  readonly params: string;
  readonly id: string;
  /** ms of Redis time; undefined if there is no deadline. */
  readonly deadline: number | undefined;
  /** The time from sending to the deadline, so that a worker knows how long the call waited. */
  readonly timeoutMs?: number | undefined;
  /** Respond into this list instead of the documented response key. */
  readonly replyTo?: string | undefined;
  readonly notification?: boolean | undefined;
  /** Whether to report progress. */
  readonly track?: boolean | undefined;
  /** Whether the last report is marked as the last one. */
  readonly trackEnd?: boolean | undefined;
  readonly traceparent?: string | undefined;
  /** Headers of the application. */
  readonly metadata?: Metadata | undefined;
  /** How many stream items the worker may send in advance. If present, it requests a stream. */
  readonly window?: number | undefined;
  readonly session?: SessionMark | undefined;
}

/** Headers that are sent with a call: authentication, tenant, locale. */
export type Metadata = Readonly<Record<string, string>>;

/** The session of a call, and the fencing token of its mapping. */
export interface SessionMark {
  readonly client: string;
  readonly epoch: number;
}

/** A call as read by a worker. */
export interface IncomingCall {
  readonly id: string;
  readonly method: string;
  readonly params: unknown;
  readonly deadline: number | undefined;
  readonly timeoutMs: number | undefined;
  readonly replyTo: string | undefined;
  readonly notification: boolean;
  readonly track: boolean;
  readonly trackEnd: boolean;
  readonly traceparent: string | undefined;
  readonly metadata: Metadata | undefined;
  readonly window: number | undefined;
  readonly session: SessionMark | undefined;
}

/** One element of a `process` list. */
export interface Progress {
  /** Milliseconds since the epoch, Redis time. */
  readonly time: number;
  /** 0 to 1. */
  readonly percent: number;
  readonly message: string;
}

/** A decoded response: a result unless there is an error. */
export interface IncomingResponse {
  readonly result?: unknown;
  readonly error?: unknown;
}

/** The service and method that a target such as "user.add_user" names. */
export interface Target {
  readonly service: string;
  readonly method: string;
}

/** One of the two wires. */
export interface Dialect {
  readonly name: "jsonrpc" | "kw";
  readonly keys: CallKeys;
  /** The keys of the registry. */
  readonly registry: RegistryKeys;
  /** The keys of sessions; undefined if this wire has none. */
  readonly sessions: SessionKeys | undefined;
  readonly push: "LPUSH" | "RPUSH";
  readonly popSide: "RIGHT" | "LEFT";
  /** Whether responses may go to one list per client if all workers support it. */
  readonly replyLists: boolean;
  /** Whether each method has its own request list, so that the list names the method. */
  readonly listPerMethod: boolean;
  /** The minimum lifetime of a request list after each push in seconds; 0 for as long as its calls. */
  readonly requestTtlSeconds: number;
  /** Whether the documented programs set that expiry with each push. */
  readonly expiresWithPush: boolean;

  /** Splits a target. Throws InvalidNameError if it names no method. */
  target(name: string): Target;
  /** The text of a call. */
  encodeCall(call: OutgoingCall): string;
  /**
   * The constant text between head and params in the plain calls of a method; undefined if every call
   * is different.
   */
  plainMiddle(method: string, replyTo: string, timeoutMs: number): string | undefined;
  /** Reads a popped call. Throws RpcError. `method` is that of the list; `deadline` that of the call, if known. */
  decodeCall(text: string, method: string | undefined, deadline?: number): IncomingCall;
  /** The text of a result; `addressed` if it goes to a shared list and must carry the id. */
  encodeResult(id: string, result: string, addressed: boolean): string;
  encodeError(id: string, error: WireError, addressed: boolean): string;
  /** Reads one parsed response; undefined if it is not a response. */
  decodeResponse(value: Readonly<Record<string, unknown>>): IncomingResponse | undefined;
  encodeProgress(progress: Progress, last: boolean): string;
  decodeProgress(value: Readonly<Record<string, unknown>>): Progress;
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

/** The id of a message, which some clients write as a number. Throws InvalidRequestError. */
export function readId(message: Readonly<Record<string, unknown>>, text: string): string {
  const { id } = message;
  if (typeof id === "string" && id !== "" && id.length <= 256) return id;
  if (Number.isSafeInteger(id)) return String(id);
  // Above 2^53 the parsed number is inexact, so the response key uses the digits that were sent.
  const digits = typeof id === "number" ? numberMember(text, "id") : undefined;
  if (digits !== undefined) return digits;
  throw new InvalidRequestError("it has no usable id", id);
}

/** The digits of a number member of the outermost object, as written in the JSON text. */
function numberMember(text: string, name: string): string | undefined {
  // Strings are skipped in a loop: a pattern for them overflows the stack on a string of some megabytes.
  const token = /["{}[\]]|-?\d[\d.eE+-]*/g;
  let depth = 0;
  let key: string | undefined;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const [part] = match;
    if (part === "{" || part === "[") depth += 1;
    else if (part === "}" || part === "]") depth -= 1;
    else if (part === '"') {
      token.lastIndex = stringEnd(text, match.index);
      if (depth !== 1) continue;
      const isKey = /^\s*:/.test(text.slice(token.lastIndex, token.lastIndex + 256));
      key = isKey ? text.slice(match.index + 1, token.lastIndex - 1) : undefined;
    } else if (depth === 1 && key === name && /^\d{1,256}$/.test(part)) return part;
  }
  return undefined;
}

/** The position after a JSON string. */
function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

/** A string member; other values count as absent. */
export function readString(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A number member; other values count as absent. */
export function readNumber(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

/** How many stream items the caller allows. */
export function readWindow(value: unknown): number | undefined {
  return typeof value === "number" && value >= 1 ? Math.min(Math.floor(value), 65_536) : undefined;
}

/** The headers of a call; entries that are not strings are left out. */
export function readMetadata(value: unknown): Metadata | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const metadata: Record<string, string> = Object.create(null);
  for (const [name, header] of Object.entries(value)) {
    if (typeof header === "string") metadata[name] = header;
  }
  return metadata;
}

/** The session of a call. */
export function readSession(value: unknown): SessionMark | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { c, e } = value as { c?: unknown; e?: unknown };
  return typeof c === "string" && typeof e === "number" ? { client: c, epoch: e } : undefined;
}

/** The differences between the two wires in a call. */
export interface CallParts {
  /** The member that marks a call without a response. */
  readonly silent: "notification" | "no_response";
  /** The members that only this wire has, each with its leading comma. */
  readonly own: string;
  /** The member with the params. */
  readonly params: string;
}

/** The text of a call: the head, the members of the wire, the members that Ropeway adds, the params. */
export function writeCall(call: OutgoingCall, { silent, own, params }: CallParts): string {
  const { id, deadline, replyTo } = call;
  let text = deadline === undefined ? `{"id":"${id}"` : writeHead(deadline, id);
  if (replyTo !== undefined) text += `,"rt":${JSON.stringify(replyTo)}`;
  if (call.notification) text += `,"${silent}":true`;
  text += own;
  if (call.track) text += ',"track_process":1';
  return `${text}${writeAddedMembers(call)},${params}}`;
}

/** The members that Ropeway adds to both wires, as text after the head, each with its leading comma. */
function writeAddedMembers(call: OutgoingCall): string {
  let text = "";
  if (call.timeoutMs !== undefined) text += `,"to":${Math.ceil(call.timeoutMs)}`;
  if (call.trackEnd) text += ',"te":1';
  if (call.traceparent !== undefined) text += `,"tp":${JSON.stringify(call.traceparent)}`;
  if (call.metadata !== undefined) text += `,"md":${JSON.stringify(call.metadata)}`;
  if (call.window !== undefined) text += `,"st":${call.window}`;
  if (call.session !== undefined) {
    const { client, epoch } = call.session;
    text += `,"ss":{"c":${JSON.stringify(client)},"e":${epoch}}`;
  }
  return text;
}

/** The members that both wires read in the same way. */
export function readAddedMembers(
  message: Readonly<Record<string, unknown>>,
): Pick<
  IncomingCall,
  | "deadline"
  | "timeoutMs"
  | "replyTo"
  | "traceparent"
  | "metadata"
  | "window"
  | "session"
  | "track"
  | "trackEnd"
> {
  const { dl, to, rt, tp, md, st, ss } = message;
  return {
    track: Boolean(message.track_process),
    trackEnd: Boolean(message.te),
    deadline: readNumber(dl),
    timeoutMs: readNumber(to),
    replyTo: readString(rt),
    traceparent: readString(tp),
    metadata: md === undefined ? undefined : readMetadata(md),
    window: readWindow(st),
    session: ss === undefined ? undefined : readSession(ss),
  };
}
