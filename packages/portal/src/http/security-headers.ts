/**
 * Headers of every response. Pages may load only what the portal itself serves, and the one
 * inline style sheet that we know by its hash; no page may frame them.
 */
import { STYLE_HASH } from "./page.ts";

const POLICY: readonly string[] = [
  "default-src 'none'",
  "script-src 'self'",
  `style-src 'self' '${STYLE_HASH}'`,
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
];

/** Name and value, ready to be set. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": POLICY.join("; "),
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  // Responses must not be cached, unless a route sets its own header.
  "cache-control": "no-store",
};
