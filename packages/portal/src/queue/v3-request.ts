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
import { isSingle } from "@ropeway/merge/internal";

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
  readonly bytes: Buffer;
  /** Undefined means JSON. */
  readonly contentType: string | undefined;
}

/** The target that a raw URL names. */
export function targetOfUrl(url: string): Target {
  const path = url.split("?", 1)[0] ?? "";
  const [mergeKey = "", method = "", ...service] = path.slice(QUEUE_PATH.length).split("/");
  return readTarget(
    decoded(mergeKey, "merge_key"),
    decoded(method, "method"),
    decoded(service.join("/"), "service"),
  );
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
  const json = isJson(body);
  if (!isSingle(target.mergeKey)) {
    if (!json) throw new InvalidArgumentError("body", preview(body), "JSON");
    return { bytes: body, contentType: undefined };
  }
  const type = contentType?.trim() ?? "";
  // curl -d says "form" unless told otherwise; JSON in it is meant as JSON.
  const undeclared = type === "" || type.startsWith("application/x-www-form-urlencoded");
  const isPlainJson = type === "application/json" || (json && undeclared);
  return { bytes: body, contentType: isPlainJson || type === "" ? undefined : type };
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

function isJson(body: Buffer): boolean {
  if (!isUtf8(body)) return false;
  try {
    JSON.parse(body.toString("utf8"));
    return true;
  } catch {
    return false; // not JSON
  }
}

function preview(body: Buffer): string {
  return body.subarray(0, 60).toString("utf8");
}
