/**
 * The Cookie and Set-Cookie headers, as far as the portal needs them (RFC 6265): it sets cookies with
 * values of its own making, and reads them back. Written by hand because @fastify/cookie needs the
 * package `cookie` 2, which does not run on Node 20.
 */

/** Attributes of a cookie that the portal sets. All of its cookies are HttpOnly and for the whole site. */
export interface CookieAttributes {
  /** Sent over HTTPS only. */
  readonly secure: boolean;
  /** When the browser forgets it. @default when the browser is closed */
  readonly expires?: Date;
}

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/;

/** The value of the named cookie in a Cookie header; the first one counts, as in every browser. */
export function readCookie(header: string | undefined, name: string): string | undefined {
  for (const pair of (header ?? "").split(";")) {
    const equals = pair.indexOf("=");
    if (equals < 0 || pair.slice(0, equals).trim() !== name) continue;
    const value = pair.slice(equals + 1).trim();
    return value.startsWith('"') && value.endsWith('"') && value.length > 1
      ? value.slice(1, -1)
      : value;
  }
  return undefined;
}

/** A Set-Cookie header. Throws a TypeError for a name or value that a cookie cannot have. */
export function setCookie(name: string, value: string, attributes: CookieAttributes): string {
  if (!NAME.test(name) || !VALUE.test(value)) throw new TypeError(`cannot set cookie ${name}`);
  const { secure, expires } = attributes;
  return [
    `${name}=${value}`,
    "Path=/",
    ...(expires === undefined ? [] : [`Expires=${expires.toUTCString()}`]),
    "HttpOnly",
    ...(secure ? ["Secure"] : []),
    "SameSite=Lax",
  ].join("; ");
}

/** A Set-Cookie header that makes the browser forget the cookie. */
export function clearCookie(name: string, attributes: CookieAttributes): string {
  return setCookie(name, "", { ...attributes, expires: new Date(0) });
}
