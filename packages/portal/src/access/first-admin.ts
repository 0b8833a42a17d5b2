/**
 * The first start of an installation creates its first admin. Two portals that start at the same
 * moment both try; the script lets one win, and only the winner knows a password to show.
 */
import { randomBytes } from "node:crypto";
import type { Redis } from "@ropeway/core";
import type { PortalKeys } from "../keys.ts";
import { createFirstAdmin } from "../scripts.ts";
import type { PasswordHasher } from "./hasher.ts";

/** The account that was just created. */
export interface FirstAdmin {
  readonly username: string;
  /** The random password, which nothing can show again; undefined if one had been given. */
  readonly password: string | undefined;
}

/** What is needed to create it. */
export interface FirstAdminPlan {
  readonly keys: PortalKeys;
  readonly hasher: PasswordHasher;
  readonly username: string;
  readonly password: string | undefined;
}

/** Creates the first admin; undefined if there is an account already. */
export async function ensureFirstAdmin(
  redis: Redis,
  { keys, hasher, username, password }: FirstAdminPlan,
): Promise<FirstAdmin | undefined> {
  const users = keys.users();
  // Only to spare the costly hash on every later start; the script decides.
  if ((await redis.send(["EXISTS", users], { key: users, repeatable: true })) === 1) return;
  const name = username.toLowerCase();
  const secret = password ?? randomBytes(15).toString("base64url");
  const hashed = await hasher.hash(secret);
  const created = await redis.run(
    createFirstAdmin,
    [users, keys.user(name)],
    [name, hashed, "admin"],
  );
  if (!created) return undefined;
  return { username: name, password: password === undefined ? secret : undefined };
}
