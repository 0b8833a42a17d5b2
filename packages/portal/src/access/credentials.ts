/**
 * The rules for user names and passwords. Names are compared without regard to case, so that
 * "Admin" cannot pass for "admin"; they are kept in lower case. Passwords have a length and no other
 * rule (NIST SP 800-63B): rules of composition make them worse.
 */
import { randomBytes } from "node:crypto";

const USERNAME = /^[a-z0-9][a-z0-9._@-]{0,63}$/;
const PASSWORD_MIN = 8;
const PASSWORD_MAX = 128;

/** Ends the sentence "a user name must be ...". */
export const USERNAME_ALLOWED = "1 to 64 letters, digits or ._@- that start with a letter or digit";

/** The name as it is kept, or undefined if it cannot be one. */
export function usernameOf(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const name = value.toLowerCase();
  return USERNAME.test(name) ? name : undefined;
}

/** What a new password must be instead; undefined if it is valid. */
export function passwordFault(value: unknown): string | undefined {
  const length = typeof value === "string" ? [...value].length : 0;
  return length >= PASSWORD_MIN && length <= PASSWORD_MAX
    ? undefined
    : `a string of ${PASSWORD_MIN} to ${PASSWORD_MAX} characters`;
}

/** A random password of 120 bits. It never begins with "-", which a program could read as an option. */
export function randomPassword(): string {
  const password = randomBytes(15).toString("base64url");
  return password.startsWith("-") ? randomPassword() : password;
}
