/**
 * Standard Webhooks 1.0: the endpoint can verify that a delivery is genuine, unaltered and recent.
 *
 *   webhook-signature: v1,BASE64( HMAC-SHA256( key, id "." timestamp "." body ) )   one per key, by spaces
 *
 * Several keys can sign at the same time, so that a key can be replaced without a gap: add the new one, configure
 * it at the endpoints, remove the old one.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { InvalidOptionError, localClock } from "@ropeway/core";
import { WebhookVerificationError } from "../errors.ts";

const PREFIX = "whsec_";

/** Reads a key of the form whsec_BASE64 with 24 to 64 bytes. */
export function signingKey(text: string): Buffer {
  const bytes = keyBytes(text);
  if (bytes !== undefined) return bytes;
  // The value is a secret and must not appear in the message.
  throw new InvalidOptionError("signingKeys", "***", "whsec_ and base64 of 24 to 64 bytes");
}

/** Whether signingKey() can read it. */
export function isSigningKey(value: unknown): value is string {
  return typeof value === "string" && keyBytes(value) !== undefined;
}

function keyBytes(text: string): Buffer | undefined {
  const bytes = Buffer.from(text.startsWith(PREFIX) ? text.slice(PREFIX.length) : "", "base64");
  return bytes.length >= 24 && bytes.length <= 64 ? bytes : undefined;
}

/** The parts of a delivery that are signed. */
export interface SignedParts {
  readonly id: string;
  /** Unix seconds. */
  readonly timestamp: number;
  readonly body: Buffer;
}

/** The value of webhook-signature. */
export function sign(parts: SignedParts, keys: readonly Buffer[]): string {
  return keys.map((key) => `v1,${hmac(parts, key).toString("base64")}`).join(" ");
}

/** The options of verifyWebhook(). */
export interface VerifyOptions {
  /** The keys that are valid now, whsec_... */
  readonly keys: readonly string[];
  /** The maximum difference between its timestamp and `now`. @default 300000 */
  readonly toleranceMs?: number;
  /** Ms since 1970. @default this machine's clock */
  readonly now?: number;
}

/** The headers of a received request. */
export type ReceivedHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Throws WebhookVerificationError unless one of the keys signed exactly this body, recently. */
export function verifyWebhook(
  headers: ReceivedHeaders,
  body: Buffer | string,
  options: VerifyOptions,
): void {
  const { keys, toleranceMs = 300_000, now = localClock.now() } = options;
  const id = header(headers, "webhook-id");
  const timestamp = Number(header(headers, "webhook-timestamp"));
  const given = header(headers, "webhook-signature").split(" ");
  if (!(Math.abs(now - timestamp * 1_000) <= toleranceMs)) {
    throw new WebhookVerificationError(`its timestamp ${timestamp} is too far from now`);
  }
  const parts = { id, timestamp, body: Buffer.from(body) };
  const expected = keys.map((key) => hmac(parts, signingKey(key)));
  const genuine = given.some((signature) => {
    const [version, text = ""] = signature.split(",");
    const bytes = Buffer.from(text, "base64");
    if (version !== "v1") return false;
    return expected.some((mac) => mac.length === bytes.length && timingSafeEqual(mac, bytes));
  });
  if (!genuine) throw new WebhookVerificationError("no signature matches a known key");
}

function hmac({ id, timestamp, body }: SignedParts, key: Buffer): Buffer {
  return createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
}

function header(headers: ReceivedHeaders, name: string): string {
  const value = headers[name];
  if (typeof value !== "string" || value === "") {
    throw new WebhookVerificationError(`the header ${name} is missing`);
  }
  return value;
}
