/**
 * How a batch is delivered. The options are kept per key, as JSON in the key's state: the last push that
 * gives options sets them for all items queued under the key. A key that delivers item by item
 * has one item, so its options apply to that item alone.
 */
import { InvalidArgumentError } from "@ropeway/core";
import { checkUrl as checkEndpointUrl } from "./destination.ts";

/** Options of one delivery. The dispatcher's defaults apply to options that are left out. */
export interface DeliveryRequest {
  /** How often delivery is tried before the batch becomes a dead letter. */
  readonly attempts?: number | undefined;
  /** How long one attempt may take. */
  readonly timeoutMs?: number | undefined;
  /** Additional headers of the request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** A URL that gets the result when the batch is delivered, through the queue itself. */
  readonly callback?: string | undefined;
  /** A URL that gets the reason when the batch becomes a dead letter, through the queue itself. */
  readonly failureCallback?: string | undefined;
}

const MOST_HEADERS = 32;
const LONGEST = 16_384;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]{0,4096}$/;
/** Headers that belong to the connection, or that we set ourselves. */
const OWN_HEADERS =
  /^(?:host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-length|content-type|user-agent|webhook-.*|traceparent|tracestate)$/i;

/** The options as they are stored, or undefined if there are none. Throws InvalidArgumentError. */
export function encodeRequest(request: DeliveryRequest | undefined): string | undefined {
  if (request === undefined) return undefined;
  checkInteger("attempts", request.attempts, 1_000);
  checkInteger("timeoutMs", request.timeoutMs, 3_600_000);
  checkUrl("callback", request.callback);
  checkUrl("failureCallback", request.failureCallback);
  checkHeaders(request.headers);
  const { attempts, timeoutMs, headers, callback, failureCallback } = request;
  const text = JSON.stringify({ attempts, timeoutMs, headers, callback, failureCallback });
  if (text.length > LONGEST) {
    throw new InvalidArgumentError("request", `${text.length} characters`, `at most ${LONGEST}`);
  }
  return text === "{}" ? undefined : text;
}

/** Decodes stored options. Options that cannot be read count as none. */
export function decodeRequest(text: string): DeliveryRequest {
  if (text === "") return NONE;
  try {
    const request: unknown = JSON.parse(text);
    if (typeof request !== "object" || request === null) return NONE;
    encodeRequest(request as DeliveryRequest); // another program may have written it
    return request as DeliveryRequest;
  } catch {
    return NONE; // neither JSON nor allowed
  }
}

const NONE: DeliveryRequest = {};

function checkInteger(name: string, value: unknown, max: number): void {
  if (value === undefined) return;
  if (Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= max) return;
  throw new InvalidArgumentError(name, value, `a whole number from 1 to ${max}`);
}

function checkUrl(name: string, value: unknown): void {
  if (value === undefined) return;
  checkEndpointUrl(value as string, name); // refused now, because a later push to it would be refused
}

function checkHeaders(headers: unknown): void {
  if (headers === undefined) return;
  if (typeof headers !== "object" || headers === null) {
    throw new InvalidArgumentError("headers", headers, "an object of strings");
  }
  const all = Object.entries(headers);
  if (all.length > MOST_HEADERS) {
    throw new InvalidArgumentError("headers", all.length, `at most ${MOST_HEADERS} headers`);
  }
  for (const [name, value] of all) {
    if (!HEADER_NAME.test(name) || OWN_HEADERS.test(name)) {
      throw new InvalidArgumentError("headers", name, "names of headers that can be forwarded");
    }
    if (typeof value !== "string" || !HEADER_VALUE.test(value)) {
      throw new InvalidArgumentError(`header ${name}`, value, "a string without line breaks");
    }
  }
}
