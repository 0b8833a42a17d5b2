/**
 * The `kw` wire: one request list per function, arguments by name.
 *
 *   call      {"dl":..,"id":..,"ts":"2026-..","kw":{"arg1":..}}
 *   response  {"ts":..,"res":..}  or  {"ts":..,"exc":"..","err":"..","err_traceback":".."}
 *   progress  {"ts":..,"up":{..}}
 *
 * The document uses `exc`, the released programs use `err`: both are written and either is read. A
 * missing or null `kw` is an empty one, and `ts` is not required. `no_response:true` gets no response.
 * A response with `rpc` carries the error number and data of Ropeway, for Ropeway clients.
 */
import { InvalidNameError } from "@ropeway/core";
import { InvalidParamsError, InvalidRequestError, RPC_CODES, type WireError } from "../errors.ts";
import { KwKeys } from "../keys.ts";
import {
  type Dialect,
  type IncomingCall,
  type IncomingResponse,
  type OutgoingCall,
  type Progress,
  parseObject,
  readAddedMembers,
  readId,
  type Target,
  writeCall,
} from "./dialect.ts";

const REQUEST_TTL_SECONDS = 120;

/** The `kw` wire, as the released Python and Go programs use it. */
export class KwDialect implements Dialect {
  readonly name = "kw" as const;
  readonly keys: KwKeys;
  readonly sessions: undefined;
  readonly push = "RPUSH" as const;
  readonly popSide = "LEFT" as const;
  readonly replyLists = false;
  readonly listPerMethod = true;
  readonly expiresWithPush = true;
  readonly requestTtlSeconds: number = REQUEST_TTL_SECONDS;
  readonly #now: () => number;

  constructor(prefix: string, now: () => number) {
    this.keys = new KwKeys(prefix);
    this.#now = now;
  }

  get registry(): KwKeys {
    return this.keys;
  }

  target(name: string): Target {
    if (typeof name !== "string" || name === "")
      throw new InvalidNameError("the target", name, "the name of a function");
    return { service: "", method: name };
  }

  encodeCall(call: OutgoingCall): string {
    const { params } = call;
    if (params.startsWith("[") && params !== "[]") {
      throw new InvalidParamsError(call.method, "the kw wire passes arguments by name only");
    }
    return writeCall(call, {
      silent: "no_response",
      own: `,"ts":"${this.#timestamp()}"`,
      params: `"kw":${params === "[]" ? "{}" : params}`,
    });
  }

  plainMiddle(): undefined {
    return undefined; // each call contains its own time
  }

  decodeCall(text: string, method: string | undefined): IncomingCall {
    const message = parseObject(text);
    const id = readId(message, text);
    const params = message.kw ?? {};
    if (typeof params !== "object" || Array.isArray(params)) {
      throw new InvalidRequestError("kw is not an object", params, id);
    }
    const notification = message.no_response === true;
    return { id, method: method ?? "", params, notification, ...readAddedMembers(message) };
  }

  encodeResult(id: string, result: string, addressed: boolean): string {
    const whose = addressed ? `"id":${JSON.stringify(id)},` : "";
    return `{${whose}"ts":"${this.#timestamp()}","res":${result}}`;
  }

  encodeError(id: string, error: WireError, addressed: boolean): string {
    const { code, message, data } = error;
    const { traceback } = (data ?? {}) as { traceback?: unknown };
    const description = describe(error);
    return JSON.stringify({
      ...(addressed ? { id } : {}),
      ts: this.#timestamp(),
      exc: description,
      err: description,
      ...(typeof traceback === "string" ? { err_traceback: traceback } : {}),
      rpc: { code, message, ...(data === undefined ? {} : { data }) },
    });
  }

  decodeResponse(value: Readonly<Record<string, unknown>>): IncomingResponse | undefined {
    const failure = [value.err, value.exc].find((text) => text !== undefined && text !== null);
    if (failure === undefined) return "res" in value ? { result: value.res } : undefined;
    if (value.rpc !== undefined) return { error: value.rpc };
    const { err_traceback: traceback } = value;
    const data = typeof traceback === "string" ? { data: { traceback } } : {};
    return { error: { code: RPC_CODES.HANDLER_FAILED, message: String(failure), ...data } };
  }

  encodeProgress(progress: Progress, last: boolean): string {
    const { percent, message } = progress;
    const ts = new Date(progress.time).toISOString();
    return JSON.stringify({ ts, up: { percent, message }, ...(last ? { end: true } : {}) });
  }

  decodeProgress(value: Readonly<Record<string, unknown>>): Progress {
    const up = (typeof value.up === "object" && value.up !== null ? value.up : {}) as Progress;
    return {
      time: Date.parse(String(value.ts)),
      percent: Number(up.percent),
      message: String(up.message ?? ""),
    };
  }

  #timestamp(): string {
    return new Date(this.#now()).toISOString();
  }
}

/**
 * As the released programs write it: the error's name, then its message. Never empty: the released Python
 * client reads an empty `err` as success.
 */
function describe(error: WireError): string {
  const { name } = (error.data ?? {}) as { name?: unknown };
  if (typeof name === "string") return `${name}: ${error.message}`;
  return error.message === "" ? `error ${error.code}` : error.message;
}
