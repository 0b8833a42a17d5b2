/**
 * The wire of seed 000: one list per service, calls in JSON-RPC's manner with version "2".
 *
 *   call      {"dl":..,"id":..,"rt":..,"version":"2","method":"add_user","params":[..]}
 *   answer    {"id":..,"result":..}  or  {"id":..,"error":{"code":..,"message":..,"data":..}}
 *   progress  {"time":..,"percent":0.562,"message":".."}
 *
 * `notification:true` keeps its id and gets no answer; `track_process:1` asks for progress.
 */

import { InvalidRequestError, type WireError } from "../errors.ts";
import { JsonRpcKeys } from "../keys.ts";
import {
  type Dialect,
  type IncomingAnswer,
  type IncomingCall,
  type OutgoingCall,
  type Progress,
  parseObject,
  readId,
  readSession,
  readText,
  readWindow,
  writeAddedMembers,
} from "./dialect.ts";
import { readHead, writeHead } from "./head.ts";

const BEFORE_METHOD = ',"version":"2","method":"';
const BEFORE_PARAMS = '","params":';

/** See the top of the file. */
export class JsonRpcDialect implements Dialect {
  readonly name = "jsonrpc" as const;
  readonly keys: JsonRpcKeys;
  readonly push = "LPUSH" as const;
  readonly popSide = "RIGHT" as const;
  readonly requestTtlSeconds: undefined;
  readonly #methods = new Map<string, string>();

  constructor(ns: string) {
    this.keys = new JsonRpcKeys(ns);
  }

  encodeCall(call: OutgoingCall): string {
    const { id, deadline } = call;
    let text = deadline === undefined ? `{"id":"${id}"` : writeHead(deadline, id);
    if (call.replyTo !== undefined) text += `,"rt":"${call.replyTo}"`;
    if (call.notification) text += ',"notification":true';
    text += this.#methodMember(call.method);
    if (call.track) text += ',"track_process":1';
    text += writeAddedMembers(call);
    return `${text},"params":${JSON.stringify(call.params)}}`;
  }

  plainMiddle(method: string, replyTo: string): string {
    return `,"rt":"${replyTo}"${this.#methodMember(method)},"params":`;
  }

  /** The members that are the same for all calls of a method. */
  #methodMember(method: string): string {
    let member = this.#methods.get(method);
    if (member === undefined) {
      member = `${BEFORE_METHOD}${JSON.stringify(method).slice(1)}`;
      this.#methods.set(method, member);
    }
    return member;
  }

  decodeCall(text: string): IncomingCall {
    return readPlainCall(text) ?? this.#decodeAnyCall(text);
  }

  #decodeAnyCall(text: string): IncomingCall {
    const message = parseObject(text);
    const id = readId(message.id);
    if (id === undefined) throw new InvalidRequestError("it has no usable id", message.id);
    const { method, params = [] } = message;
    if (typeof method !== "string" || method === "") {
      throw new InvalidRequestError("method is not a text", method, id);
    }
    if (typeof params !== "object" || params === null) {
      throw new InvalidRequestError("params is neither an array nor an object", params, id);
    }
    const { dl, rt, tp, st, ss } = message;
    return {
      id,
      method,
      params,
      notification: message.notification === true,
      track: Boolean(message.track_process),
      deadline: typeof dl === "number" ? dl : undefined,
      replyTo: readText(rt),
      traceparent: readText(tp),
      window: readWindow(st),
      session: ss === undefined ? undefined : readSession(ss),
    };
  }

  encodeResult(id: string, result: string): string {
    return `{"id":${JSON.stringify(id)},"result":${result}}`;
  }

  encodeError(id: string, error: WireError): string {
    return `{"id":${JSON.stringify(id)},"error":${JSON.stringify(error)}}`;
  }

  decodeAnswer(value: Readonly<Record<string, unknown>>): IncomingAnswer | undefined {
    if (value.error === null) return "result" in value ? { result: value.result } : undefined;
    return value.error !== undefined || "result" in value ? value : undefined;
  }

  encodeProgress(progress: Progress): string {
    return JSON.stringify(progress);
  }

  decodeProgress(value: Readonly<Record<string, unknown>>): Progress {
    return {
      time: Number(value.time),
      percent: Number(value.percent),
      message: String(value.message ?? ""),
    };
  }

  ticket(_method: string, id: string): string {
    return id;
  }

  readTicket(ticket: string): { method: string; id: string } {
    return { method: "", id: ticket };
  }
}

/**
 * Reads a call laid out as callers of ours lay out most of theirs, where only the params have to be
 * parsed; undefined for any other, which is then read, or refused, as a whole.
 */
function readPlainCall(text: string): IncomingCall | undefined {
  const head = readHead(text);
  if (head?.replyTo === undefined || !text.startsWith(BEFORE_METHOD, head.end)) return undefined;
  const methodAt = head.end + BEFORE_METHOD.length;
  const methodEnd = text.indexOf('"', methodAt);
  const method = text.slice(methodAt, methodEnd);
  if (method === "" || method.includes("\\")) return undefined;
  if (!text.startsWith(BEFORE_PARAMS, methodEnd) || !text.endsWith("}")) return undefined;
  const params = parsed(text.slice(methodEnd + BEFORE_PARAMS.length, -1));
  if (typeof params !== "object" || params === null) return undefined;
  return {
    id: head.id,
    method,
    params,
    notification: false,
    track: false,
    deadline: head.deadline,
    replyTo: head.replyTo,
    traceparent: undefined,
    window: undefined,
    session: undefined,
  };
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined; // told by whoever reads the whole
  }
}
