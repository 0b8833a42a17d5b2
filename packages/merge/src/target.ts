/**
 * Where a batch goes: method, URL and merge key, and how these three are spelt as one queue key.
 *
 *   "MERGE_KEY URL METHOD"            items of one key travel together
 *   "-MERGE_KEY URL METHOD ITEM_ID"   a merge key that starts with "-": every item has a key, and so a
 *                                     time, a lock and retries, of its own
 *
 * A URL has no spaces and a method none, so reading from the right is unambiguous whatever the merge key
 * contains, and no key ends like one of the queue's companions (":data").
 */
import { createHash } from "node:crypto";
import { InvalidArgumentError } from "./errors.ts";

/** The three parts of a service path. */
export interface Target {
  /** Taken literally, never decoded. */
  readonly mergeKey: string;
  readonly method: string;
  /** Absolute, http or https, normalised. */
  readonly url: string;
}

const METHODS = ["POST", "PUT", "PATCH", "DELETE", "GET"];
const LONGEST_URL = 2_048;
const LONGEST_MERGE_KEY = 1_024;

/** Whether the items of this merge key are delivered one by one. */
export function isSingle(mergeKey: string): boolean {
  return mergeKey.startsWith("-");
}

/** Reads the path of the HTTP service: merge key, method, base64url of the URL. */
export function readTarget(mergeKey: string, method: string, service: string): Target {
  checkMergeKey(mergeKey);
  const upper = method.toUpperCase();
  if (!METHODS.includes(upper)) {
    throw new InvalidArgumentError("method", method, `one of ${METHODS.join(", ")}`);
  }
  return { mergeKey, method: upper, url: checkUrl(decodeService(service), service) };
}

/** Refuses a merge key that is missing or too long. */
export function checkMergeKey(mergeKey: string): string {
  if (mergeKey === "" || mergeKey.length > LONGEST_MERGE_KEY) {
    const allowed = `a text of 1 to ${LONGEST_MERGE_KEY} characters`;
    throw new InvalidArgumentError("merge_key", mergeKey, allowed);
  }
  return mergeKey;
}

/** Checks a target URL and writes it the one way we compare it. */
export function checkUrl(text: string, shown: string = text): string {
  const wrong = (allowed: string) => new InvalidArgumentError("service", shown, allowed);
  if (!URL.canParse(text)) throw wrong("base64url of an absolute http or https URL");
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw wrong("base64url of an http or https URL");
  }
  if (url.username !== "" || url.password !== "") throw wrong("a URL without user and password");
  url.hash = "";
  if (url.href.length > LONGEST_URL) throw wrong(`a URL of at most ${LONGEST_URL} characters`);
  return url.href;
}

/** The service part of a path for a URL. */
export function encodeService(url: string): string {
  return Buffer.from(url).toString("base64url");
}

/** The queue key of a target; `itemId` is needed, and used, for single items only. */
export function keyOf(target: Target, itemId: string): string {
  const { mergeKey, url, method } = target;
  const key = `${mergeKey} ${url} ${method}`;
  return isSingle(mergeKey) ? `${key} ${itemId}` : key;
}

/**
 * The queue key of one push. A single item's key is made from the idempotency key if there is one, so
 * that a repetition meets the first push.
 */
export function pushKeyOf(target: Target, id: string, idempotencyKey: string | undefined): string {
  if (idempotencyKey === undefined || !isSingle(target.mergeKey)) return keyOf(target, id);
  const name = createHash("sha256").update(idempotencyKey).digest("base64url").slice(0, 22);
  return keyOf(target, name);
}

/** What all keys of a single target begin with. */
export function singlePrefix({ mergeKey, url, method }: Target): string {
  return `${mergeKey} ${url} ${method} `;
}

/** The target a key was made from; undefined for a key that keyOf() did not make. */
export function targetOf(key: string): Target | undefined {
  const parts = key.split(" ");
  if (isSingle(key)) parts.pop();
  const method = parts.pop();
  const url = parts.pop();
  const mergeKey = parts.join(" ");
  if (method === undefined || url === undefined || mergeKey === "") return undefined;
  if (!METHODS.includes(method) || !URL.canParse(url)) return undefined;
  return { mergeKey, method, url };
}

/** Whom a key's batches are sent to: scheme, host and port; undefined for a key that names no target. */
export function originOf(key: string): string | undefined {
  const target = targetOf(key);
  return target === undefined ? undefined : new URL(target.url).origin;
}

/** Base64url, with or without padding; the plain alphabet is understood too. */
function decodeService(service: string): string {
  const bare = service.replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
  const bytes = Buffer.from(bare, "base64url");
  // Node skips what is no base64; writing it back shows whether anything was skipped.
  if (bare === "" || bytes.toString("base64url").slice(0, -1) !== bare.slice(0, -1)) {
    throw new InvalidArgumentError("service", service, "base64url of the target's URL");
  }
  return bytes.toString("utf8");
}
