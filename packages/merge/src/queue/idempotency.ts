/** Idempotency keys: which are allowed, and what a repetition must repeat. */
import { createHash } from "node:crypto";
import { InvalidArgumentError } from "@ropeway/core";

/** Throws InvalidArgumentError for what cannot be an idempotency key. */
export function checkIdempotencyKey(key: string): void {
  if (typeof key === "string" && /^[\x21-\x7e]{1,255}$/.test(key)) return;
  const allowed = "1 to 255 visible ASCII characters without spaces";
  throw new InvalidArgumentError("idempotencyKey", key, allowed);
}

/** The part of a push that a repetition must repeat; a client may well compute another time. */
export function digestOf(
  body: string | Buffer,
  contentType: string | undefined,
  request: string | undefined,
): string {
  const hash = createHash("sha256").update(body);
  return hash.update(`\n${contentType ?? ""}\n${request ?? ""}`).digest("base64url");
}
