/**
 * A browser in which an account has signed in before. Its failed logins are counted by themselves, so that an
 * attacker who makes a whole address wait, or a whole account, does not keep the account's owner out
 * (OWASP calls this a device cookie).
 *
 * The cookie is a random id and a MAC whose key is the account's password hash. Nothing has to be
 * stored, a new password makes every device unknown, and the cookie reveals nothing about the hash, which
 * has a random salt. It does not sign in a user: it only decides which throttle counts a login.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { CookieAttributes } from "../http/cookie.ts";
import type { Account } from "./users.ts";

const ID_BYTES = 16;
const REMEMBERED_MS = 180 * 24 * 3_600_000;

/** Name and attributes of the cookie for this request's scheme. */
export function deviceCookie(request: FastifyRequest): {
  readonly name: string;
  readonly attributes: CookieAttributes;
} {
  const secure = request.protocol === "https";
  const expires = new Date(Date.now() + REMEMBERED_MS); // the browser's clock, not one that we compare
  return { name: `${secure ? "__Host-" : ""}ropeway_device`, attributes: { secure, expires } };
}

/** The cookie's value for a device in which the account has just signed in. */
export function newDevice(account: Account): string {
  const id = randomBytes(ID_BYTES).toString("base64url");
  return `${id}.${macOf(id, account)}`;
}

/** The id of the device, if its cookie was made for this account and password. */
export function deviceOf(cookie: string | undefined, account: Account): string | undefined {
  const [id = "", mac = ""] = (cookie ?? "").split(".", 2);
  const expected = Buffer.from(macOf(id, account));
  const given = Buffer.from(mac);
  return given.length === expected.length && timingSafeEqual(given, expected) ? id : undefined;
}

function macOf(id: string, { username, passwordHash }: Account): string {
  return createHmac("sha256", passwordHash)
    .update(`ropeway device ${username} ${id}`)
    .digest("base64url");
}
