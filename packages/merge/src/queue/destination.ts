/**
 * The destination of items: a merge key, a method and an endpoint, and how these three are written as one key of
 * the queue.
 *
 *   "MERGE_KEY URL METHOD"            items of one key are delivered together
 *   "-MERGE_KEY URL METHOD ITEM_ID"   a merge key that starts with "-": every item has a key, and so a
 *                                     time, a lock and retries, of its own
 *
 * Neither a URL nor a method has spaces, so parsing from the right is unambiguous for any merge key,
 * and no key ends like one of the queue's other keys (":data").
 */
import { createHash } from "node:crypto";
import { InvalidArgumentError } from "@ropeway/core";
import { isWellFormed } from "../keys.ts";

/** The destination of items. */
export interface Destination {
  /** Taken literally, never decoded. Items of one merge key, method and URL are delivered together. */
  readonly mergeKey: string;
  /** POST, PUT, PATCH, DELETE or GET. */
  readonly method: string;
  /** The endpoint: absolute, http or https, normalised. */
  readonly url: string;
}

/** The methods that endpoints can be called with. */
export const METHODS: readonly string[] = ["POST", "PUT", "PATCH", "DELETE", "GET"];
const LONGEST_URL = 2_048;
const LONGEST_MERGE_KEY = 1_024;

/** Whether the items of this merge key are delivered one by one. */
export function isSingle(mergeKey: string): boolean {
  return mergeKey.startsWith("-");
}

/** A checked destination, its method in upper case and its URL normalised. Throws InvalidArgumentError. */
export function destination(given: {
  readonly mergeKey: string;
  readonly method?: string | undefined;
  readonly url: string;
}): Destination {
  const { mergeKey, method = "POST", url } = given;
  return { mergeKey: checkMergeKey(mergeKey), method: checkMethod(method), url: checkUrl(url) };
}

/** Throws InvalidArgumentError if the merge key is empty or too long. */
export function checkMergeKey(mergeKey: string): string {
  const isFit =
    typeof mergeKey === "string" &&
    mergeKey !== "" &&
    mergeKey.length <= LONGEST_MERGE_KEY &&
    isWellFormed(mergeKey);
  if (isFit) return mergeKey;
  const allowed = `a string of 1 to ${LONGEST_MERGE_KEY} characters`;
  throw new InvalidArgumentError("merge_key", mergeKey, allowed);
}

/** The method in upper case. Throws InvalidArgumentError. */
export function checkMethod(method: string): string {
  const upper = String(method).toUpperCase();
  if (METHODS.includes(upper)) return upper;
  throw new InvalidArgumentError("method", method, `one of ${METHODS.join(", ")}`);
}

/** An endpoint's URL, normalised for comparisons. Throws InvalidArgumentError. */
export function checkUrl(given: string, name: string = "url"): string {
  const wrong = (allowed: string) => new InvalidArgumentError(name, given, allowed);
  if (typeof given !== "string" || !URL.canParse(given)) {
    throw wrong("an absolute http or https URL");
  }
  const url = new URL(given);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw wrong("an http or https URL");
  if (url.username !== "" || url.password !== "") throw wrong("a URL without user and password");
  url.hash = "";
  if (url.href.length > LONGEST_URL) throw wrong(`a URL of at most ${LONGEST_URL} characters`);
  return url.href;
}

/** The service part of a v3 path for a URL: base64url. */
export function encodeService(url: string): string {
  return Buffer.from(url).toString("base64url");
}

/** The URL in the service part of a v3 path: base64url, with or without padding. */
export function decodeService(service: string): string {
  const bare = service.replace(/=+$/, "").replaceAll("+", "-").replaceAll("/", "_");
  const bytes = Buffer.from(bare, "base64url");
  // Node skips characters that are not base64. Encoding again shows whether any was skipped.
  if (bare === "" || bytes.toString("base64url").slice(0, -1) !== bare.slice(0, -1)) {
    throw new InvalidArgumentError("service", service, "base64url of the endpoint's URL");
  }
  return checkUrl(bytes.toString("utf8"), "service");
}

/** The queue key of a destination; `itemId` is used for single items only. */
export function keyOf({ mergeKey, url, method }: Destination, itemId: string): string {
  const key = `${mergeKey} ${url} ${method}`;
  return isSingle(mergeKey) ? `${key} ${itemId}` : key;
}

/**
 * The queue key of one push. The key of a single item is made from the idempotency key if there is one, so
 * that a repetition finds the first push.
 */
export function pushKeyOf(
  to: Destination,
  { id, idempotencyKey }: { readonly id: string; readonly idempotencyKey?: string | undefined },
): string {
  if (idempotencyKey === undefined || !isSingle(to.mergeKey)) return keyOf(to, id);
  const name = createHash("sha256").update(idempotencyKey).digest("base64url").slice(0, 22);
  return keyOf(to, name);
}

/** The common prefix of all keys of a destination whose items are delivered one by one. */
export function singlePrefix({ mergeKey, url, method }: Destination): string {
  return `${mergeKey} ${url} ${method} `;
}

/** The destination that a key was made from; undefined for a key that keyOf() did not make. */
export function destinationOf(key: string): Destination | undefined {
  const parts = key.split(" ");
  if (isSingle(key)) parts.pop();
  const method = parts.pop();
  const url = parts.pop();
  const mergeKey = parts.join(" ");
  if (method === undefined || url === undefined || mergeKey === "") return undefined;
  if (!METHODS.includes(method) || !URL.canParse(url)) return undefined;
  return { mergeKey, method, url };
}

/** Scheme, host and port of a key's endpoint; undefined for a key without an endpoint. */
export function originOf(key: string): string | undefined {
  const to = destinationOf(key);
  return to === undefined ? undefined : new URL(to.url).origin;
}
