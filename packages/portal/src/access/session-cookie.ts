/**
 * The cookie that holds a session's token. Scripts cannot read it, other sites cannot send it with
 * their writes, and over HTTPS its name carries __Host-, which browsers accept only from this very
 * host, for all of it, and encrypted.
 */
import type { FastifyRequest } from "fastify";
import type { CookieAttributes } from "../http/cookie.ts";

/** Name and attributes of the cookie for this request's scheme. */
export function sessionCookie(request: FastifyRequest): {
  readonly name: string;
  readonly attributes: CookieAttributes;
} {
  const secure = request.protocol === "https";
  return { name: secure ? "__Host-ropeway_session" : "ropeway_session", attributes: { secure } };
}
