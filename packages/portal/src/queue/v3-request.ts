/**
 * Reads a request of the v3 queue: everything that can be wrong with it is found here, named, and
 * nothing has been stored by then.
 *
 *   /v3/queue/{merge_key}/{method}/{service}?update=once|always&ontime=T&maxwait=S
 *
 * The path is cut before it is decoded, so that a %2F inside a merge key stays inside. Whether the key
 * starts with "-" is decided on the literal key and before anything else.
 */
import { isUtf8 } from "node:buffer";
import { InvalidArgumentError, readTarget, type Target } from "@ropeway/merge";
import { checkMergeKey, isSingle } from "@ropeway/merge/internal";

/** Where every path of the queue begins. */
export const QUEUE_PATH = "/v3/queue/";

/** The year 9999; what is larger are milliseconds. */
const LATEST = 253_402_300_799;

/** What the query says. */
export interface PushQuery {
  readonly update: "once" | "always";
  /** Unix seconds; 0 is now. */
  readonly ontime: number;
  readonly maxWaitMs: number | undefined;
}

/** A body and what it is delivered as. */
export interface PushBody {
  /** JSON as text, anything else as bytes. */
  readonly content: string | Buffer;
  /** Undefined means JSON. */
  readonly contentType: string | undefined;
}

/** The path that a raw URL names, cut and not yet decoded. */
export interface QueuePath {
  readonly mergeKey: string;
  /** Method and service: few different ones come again and again. */
  readonly rest: string;
}

/** Cuts a raw URL. */
export function cutPath(url: string): QueuePath {
  const query = url.indexOf("?");
  const path = url.slice(QUEUE_PATH.length, query < 0 ? undefined : query);
  const slash = path.indexOf("/");
  if (slash < 0) return { mergeKey: path, rest: "" };
  return { mergeKey: path.slice(0, slash), rest: path.slice(slash + 1) };
}

/** The target that a path names. */
export function targetOfPath({ mergeKey, rest }: QueuePath): Target {
  const [method = "", ...service] = rest.split("/");
  return readTarget(
    decoded(mergeKey, "merge_key"),
    decoded(method, "method"),
    decoded(service.join("/"), "service"),
  );
}

/** A merge key as a path spells it. */
export function mergeKeyOf({ mergeKey }: QueuePath): string {
  return checkMergeKey(decoded(mergeKey, "merge_key"));
}

/** The checked query. */
export function readQuery(query: Readonly<Record<string, unknown>>): PushQuery {
  const update = query.update ?? "once";
  if (update !== "once" && update !== "always") {
    throw new InvalidArgumentError("update", update, "once or always");
  }
  const ontime = seconds(query.ontime, "ontime", "unix seconds") ?? 0;
  const maxWait = seconds(query.maxwait, "maxwait", "a number of seconds");
  return { update, ontime, maxWaitMs: maxWait === undefined ? undefined : maxWait * 1_000 };
}

/** The checked body: JSON, unless the key delivers item by item. */
export function readBody(target: Target, body: Buffer, contentType: string | undefined): PushBody {
  const json = jsonOf(body);
  if (!isSingle(target.mergeKey)) {
    if (json === undefined) throw notJson(body);
    return { content: json, contentType: undefined };
  }
  const type = contentType?.trim() ?? "";
  // curl -d says "form" unless told otherwise; JSON in it is meant as JSON.
  const undeclared = type === "" || type.startsWith("application/x-www-form-urlencoded");
  const isPlainJson = type === "application/json" || (json !== undefined && undeclared);
  return { content: body, contentType: isPlainJson || type === "" ? undefined : type };
}

function decoded(text: string, parameter: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidArgumentError(parameter, text, "percent-encoded UTF-8");
  }
}

function seconds(value: unknown, parameter: string, allowed: string): number | undefined {
  if (value === undefined) return undefined;
  const text = typeof value === "string" ? value.trim() : "";
  const number = Number(text);
  if (text === "" || !/^-?[\d.]+$/.test(text) || !(number <= LATEST)) {
    throw new InvalidArgumentError(parameter, value, allowed);
  }
  return Math.max(0, number);
}

/** The body's text if it is JSON. */
function jsonOf(body: Buffer): string | undefined {
  if (!isUtf8(body)) return undefined;
  const text = body.toString("utf8");
  try {
    JSON.parse(text);
    return text;
  } catch {
    return undefined; // not JSON
  }
}

/** Says where it stops to be JSON: a long body looks fine at its beginning. */
function notJson(body: Buffer): InvalidArgumentError {
  const beginning = body.subarray(0, 60).toString("utf8");
  let why = "it is not UTF-8";
  if (isUtf8(body)) {
    try {
      JSON.parse(body.toString("utf8"));
    } catch (error) {
      why = (error as Error).message;
    }
  }
  return new InvalidArgumentError("body", beginning, `JSON (${why})`);
}
