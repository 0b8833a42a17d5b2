/**
 * Cross-site request forgery: a page elsewhere makes a browser send a write with our cookie. Browsers
 * say where a write comes from, in Sec-Fetch-Site or at least in Origin; what says neither is not a
 * browser and has no cookie that was not given to it on purpose. Requests with an Authorization header
 * are exempt, since no page can make a browser send that without our consent (CORS, which we do not
 * give). Login is included: being signed in as someone else is an attack too.
 */
import type { IncomingHttpHeaders } from "node:http";

const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS"]);

/** The foreign origin of a write, or undefined if the request is fine. `host` is our own. */
export function foreignOrigin(
  method: string,
  headers: IncomingHttpHeaders,
  host: string,
): string | undefined {
  if (SAFE_METHODS.has(method) || headers.authorization !== undefined) return undefined;
  const { origin } = headers;
  const site = headers["sec-fetch-site"];
  if (site !== undefined) {
    return site === "same-origin" || site === "none" ? undefined : (origin ?? String(site));
  }
  if (origin === undefined) return undefined;
  return hostOf(origin) === host ? undefined : origin;
}

function hostOf(origin: string): string | undefined {
  try {
    return new URL(origin).host;
  } catch {
    return undefined; // "null", from a sandboxed frame or a file
  }
}
