/** Idempotency keys: which are allowed, and what must be equal in a repetition. */
import { createHash } from "node:crypto";
import { InvalidArgumentError } from "@ropeway/core";

/** Throws InvalidArgumentError for a string that cannot be an idempotency key. */
export function checkIdempotencyKey(key: string): void {
  if (typeof key === "string" && /^[\x21-\x7e]{1,255}$/.test(key)) return;
  const allowed = "1 to 255 visible ASCII characters without spaces";
  throw new InvalidArgumentError("idempotencyKey", key, allowed);
}

/** A digest of the parts that must be equal in a repetition. The time is not included: a client may compute another. */
export function digestOf(
  body: string | Buffer,
  contentType: string | undefined,
  request: string | undefined,
): string {
  const hash = createHash("sha256").update(body);
  return hash.update(`\n${contentType ?? ""}\n${request ?? ""}`).digest("base64url");
}
