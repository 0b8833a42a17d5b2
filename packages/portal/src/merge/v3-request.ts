/**
 * Reads a request of the v3 interface. Every mistake is found here and reported before anything is stored.
 *
 *   /v3/queue/{merge_key}/{method}/{service}?update=once|always&ontime=T&maxwait=S
 *
 * The path is cut before it is decoded, so that a %2F inside a merge key stays inside. Whether the key
 * starts with "-" is decided on the literal key and before anything else.
 */
import { isUtf8 } from "node:buffer";
import { InvalidArgumentError } from "@ropeway/core";
import type { Destination } from "@ropeway/merge";
import { checkMergeKey, checkMethod, decodeService, isSingle } from "@ropeway/merge/internal";

/** Where every path of the interface begins. */
export const V3_PATH = "/v3/queue/";

/** The year 9999 in seconds; larger numbers are milliseconds. */
const LATEST = 253_402_300_799;

/** The parameters of the query. */
export interface PushQuery {
  readonly update: "once" | "always";
  /** Ms since 1970; 0 is now. */
  readonly at: number;
  readonly maxWaitMs: number | undefined;
}

/** A body and its content type. */
export interface PushBody {
  /** JSON as text, anything else as bytes. */
  readonly content: string | Buffer;
  /** Undefined means JSON. */
  readonly contentType: string | undefined;
}

/** The path that a raw URL names, cut and not yet decoded. */
export interface V3Path {
  readonly mergeKey: string;
  /** Method and service. Most requests repeat a few of them. */
  readonly rest: string;
}

/** Cuts a raw URL. */
export function cutPath(url: string): V3Path {
  const query = url.indexOf("?");
  const path = url.slice(V3_PATH.length, query < 0 ? undefined : query);
  const slash = path.indexOf("/");
  if (slash < 0) return { mergeKey: path, rest: "" };
  return { mergeKey: path.slice(0, slash), rest: path.slice(slash + 1) };
}

/** The destination that a path names. */
export function destinationOfPath({ mergeKey, rest }: V3Path): Destination {
  const [method = "", ...service] = rest.split("/");
  return {
    mergeKey: checkMergeKey(decoded(mergeKey, "merge_key")),
    method: checkMethod(decoded(method, "method")),
    url: decodeService(decoded(service.join("/"), "service")),
  };
}

/** A merge key as a path spells it. */
export function mergeKeyOf({ mergeKey }: V3Path): string {
  return checkMergeKey(decoded(mergeKey, "merge_key"));
}

/** Throws InvalidArgumentError for a parameter that is not known: a misspelt one must not look like success. */
export function checkQuery(
  query: Readonly<Record<string, unknown>>,
  known: readonly string[],
): void {
  for (const name in query) {
    if (known.includes(name)) continue;
    const allowed = `a parameter that exists: ${known.join(", ")}`;
    throw new InvalidArgumentError(name.slice(0, 60), query[name], allowed);
  }
}

const PUSH_PARAMETERS = ["update", "ontime", "maxwait"];

/** The checked query. */
export function readQuery(query: Readonly<Record<string, unknown>>): PushQuery {
  checkQuery(query, PUSH_PARAMETERS);
  const update = query.update ?? "once";
  if (update !== "once" && update !== "always") {
    throw new InvalidArgumentError("update", update, "once or always");
  }
  const ontime = seconds(query.ontime, "ontime", "unix seconds") ?? 0;
  const maxWait = seconds(query.maxwait, "maxwait", "a number of seconds");
  return {
    update,
    at: ontime * 1_000,
    maxWaitMs: maxWait === undefined ? undefined : maxWait * 1_000,
  };
}

/** The body and its content type; the queue checks that a merged one is JSON. */
export function readBody(
  to: Destination,
  body: Buffer,
  given: string | readonly string[] | undefined,
): PushBody {
  if (!isSingle(to.mergeKey)) {
    const content = isUtf8(body) ? body.toString("utf8") : body;
    return { content, contentType: undefined };
  }
  const type = String(given ?? "").trim();
  // curl -d sends the content type of a form by default; JSON in it is treated as JSON.
  const undeclared = type === "" || type.startsWith("application/x-www-form-urlencoded");
  const isPlainJson = type === "application/json" || (undeclared && isJson(body));
  return { content: body, contentType: isPlainJson || type === "" ? undefined : type };
}

function decoded(text: string, parameter: string): string {
  if (!text.includes("%")) return text;
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

function isJson(body: Buffer): boolean {
  if (!isUtf8(body)) return false;
  try {
    JSON.parse(body.toString("utf8"));
    return true;
  } catch {
    return false; // not JSON
  }
}
