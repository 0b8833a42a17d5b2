/**
 * The first start of an installation creates its first admin. Two portals that start at the same
 * moment both try; the script lets one win, and only the winner knows a password to show.
 */
import { randomPassword } from "./credentials.ts";
import type { PasswordHasher } from "./hasher.ts";
import type { AccessStore } from "./store.ts";

/** The account that was just created. */
export interface FirstAdmin {
  readonly username: string;
  /** The random password, which cannot be shown again; undefined if a password was given. */
  readonly password: string | undefined;
}

/** What is needed to create it. */
export interface FirstAdminPlan {
  readonly store: AccessStore;
  readonly hasher: PasswordHasher;
  readonly username: string;
  readonly password: string | undefined;
}

/** Creates the first admin; undefined if there is an account already. */
export async function ensureFirstAdmin(plan: FirstAdminPlan): Promise<FirstAdmin | undefined> {
  const { store, hasher, password } = plan;
  // Only to avoid the slow hash on every later start; the script decides.
  if (await store.hasAccounts()) return undefined;
  const username = plan.username.toLowerCase();
  const secret = password ?? randomPassword();
  const created = await store.createFirstAdmin(username, await hasher.hash(secret));
  if (!created) return undefined;
  return { username, password: password === undefined ? secret : undefined };
}
