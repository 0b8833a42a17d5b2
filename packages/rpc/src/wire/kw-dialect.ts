/**
 * The wire of seed 002: one list per function, arguments by name.
 *
 *   call      {"dl":..,"id":..,"ts":"2026-..","kw":{"arg1":..}}
 *   answer    {"ts":..,"res":..}  or  {"ts":..,"exc":"..","err":".."}
 *   progress  {"ts":..,"up":{..}}
 *
 * The seed says `exc`, the released programs say `err`: both are written and either is read. A missing
 * `kw`, or null, is an empty one, and `ts` is not required. `no_response:true` gets no answer. An
 * answer that says `rpc` carries our error number and data, for callers of ours.
 */

import { InvalidParamsError, InvalidRequestError, RPC_CODES, type WireError } from "../errors.ts";
import { KwKeys } from "../keys.ts";
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
import { writeHead } from "./head.ts";

const REQUEST_TTL_SECONDS = 120;

/** See the top of the file. */
export class KwDialect implements Dialect {
  readonly name = "kw" as const;
  readonly keys: KwKeys;
  readonly push = "RPUSH" as const;
  readonly popSide = "LEFT" as const;
  readonly requestTtlSeconds: number = REQUEST_TTL_SECONDS;
  readonly #now: () => number;

  constructor(prefix: string, now: () => number) {
    this.keys = new KwKeys(prefix);
    this.#now = now;
  }

  encodeCall(call: OutgoingCall): string {
    const { id, deadline, params } = call;
    if (Array.isArray(params) && params.length > 0) {
      throw new InvalidParamsError(call.method, "this wire passes arguments by name only");
    }
    let text = deadline === undefined ? `{"id":"${id}"` : writeHead(deadline, id);
    if (call.replyTo !== undefined) text += `,"rt":"${call.replyTo}"`;
    if (call.notification) text += ',"no_response":true';
    text += `,"ts":"${this.#timestamp()}"`;
    if (call.track) text += ',"track_process":1';
    text += writeAddedMembers(call);
    return `${text},"kw":${JSON.stringify(Array.isArray(params) ? {} : (params ?? {}))}}`;
  }

  plainMiddle(): undefined {
    return undefined; // each call has its own time in it
  }

  decodeCall(text: string, method: string | undefined): IncomingCall {
    const message = parseObject(text);
    const id = readId(message.id);
    if (id === undefined) throw new InvalidRequestError("it has no usable id", message.id);
    const kw = message.kw ?? {};
    if (typeof kw !== "object" || Array.isArray(kw)) {
      throw new InvalidRequestError("kw is not an object", kw, id);
    }
    const { dl, rt, tp, st, ss } = message;
    return {
      id,
      method: method ?? "",
      params: kw,
      notification: message.no_response === true,
      track: Boolean(message.track_process),
      deadline: typeof dl === "number" ? dl : undefined,
      replyTo: readText(rt),
      traceparent: readText(tp),
      window: readWindow(st),
      session: readSession(ss),
    };
  }

  encodeResult(id: string, result: string, addressed: boolean): string {
    const whose = addressed ? `"id":${JSON.stringify(id)},` : "";
    return `{${whose}"ts":"${this.#timestamp()}","res":${result}}`;
  }

  encodeError(id: string, error: WireError, addressed: boolean): string {
    const { code, message, data } = error;
    return JSON.stringify({
      ...(addressed ? { id } : {}),
      ts: this.#timestamp(),
      exc: describe(error),
      err: describe(error),
      rpc: { code, message, ...(data === undefined ? {} : { data }) },
    });
  }

  decodeAnswer(value: Readonly<Record<string, unknown>>): IncomingAnswer | undefined {
    const failure = [value.err, value.exc].find((text) => text !== undefined && text !== null);
    if (failure !== undefined) {
      return { error: value.rpc ?? { code: RPC_CODES.HANDLER_FAILED, message: String(failure) } };
    }
    return "res" in value ? { result: value.res } : undefined;
  }

  encodeProgress(progress: Progress): string {
    const { percent, message } = progress;
    const ts = new Date(progress.time).toISOString();
    return JSON.stringify({ ts, up: { percent, message } });
  }

  decodeProgress(value: Readonly<Record<string, unknown>>): Progress {
    const up = (typeof value.up === "object" && value.up !== null ? value.up : {}) as Progress;
    return {
      time: Date.parse(String(value.ts)),
      percent: Number(up.percent),
      message: String(up.message ?? ""),
    };
  }

  ticket(method: string, id: string): string {
    return `${method}/${id}`;
  }

  readTicket(ticket: string): { method: string; id: string } {
    const at = ticket.lastIndexOf("/");
    return { method: ticket.slice(0, Math.max(0, at)), id: ticket.slice(at + 1) };
  }

  #timestamp(): string {
    return new Date(this.#now()).toISOString();
  }
}

/** As the released programs say it: the error's name, then its message. */
function describe(error: WireError): string {
  const name = (error.data as { name?: unknown } | undefined)?.name;
  return typeof name === "string" ? `${name}: ${error.message}` : error.message;
}
