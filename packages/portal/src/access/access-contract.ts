/** The requests and responses about users, roles, tokens and the audit log. */
import { z } from "zod";

const time = z.iso.datetime();
const name = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._@-]{0,63}$/i)
  .describe("1 to 64 letters, digits or ._@- that start with a letter or digit.");
// An empty list is refused, because it could mean "nothing" or "no limit".
const grants = z
  .array(z.string().regex(/^(\*|[a-z-]+):(\*|[a-z-]+)$/))
  .min(1)
  .max(100)
  .describe("Permissions such as task:operate; a star stands for any: task:*, *:view.");
const groups = z.array(z.string().min(1).max(128)).min(1).max(100);

/** An account. */
export interface User {
  readonly username: string;
  readonly role: string;
  readonly createdAt: string;
  readonly passwordAt: string;
}
export const User: z.ZodType<User> = z.object({
  username: z.string(),
  role: z.string(),
  createdAt: time,
  passwordAt: time.describe("When its password was set."),
});

/** A list of accounts. */
export interface UserPage {
  readonly items: readonly User[];
  readonly cursor: string | null;
}
export const UserPage: z.ZodType<UserPage> = z.object({
  items: z.array(User),
  cursor: z.string().nullable(),
});

/** A new account. Without a password a random one is made and returned once. */
export interface NewUser {
  readonly username: string;
  readonly role: string;
  readonly password?: string | undefined;
}
export const NewUser: z.ZodType<NewUser> = z.strictObject({
  username: name,
  role: name,
  password: z.string().min(8).max(128).meta({ format: "password", writeOnly: true }).optional(),
});

/** The account that was made, or whose password was set. */
export interface CreatedUser extends User {
  readonly password?: string | undefined;
}
export const CreatedUser: z.ZodType<CreatedUser> = z.object({
  username: z.string(),
  role: z.string(),
  createdAt: time,
  passwordAt: time,
  password: z.string().optional().describe("Only if it was made for you, and only here."),
});

/** A change of an account. */
export interface UserEdit {
  readonly role?: string | undefined;
  readonly password?: string | undefined;
}
export const UserEdit: z.ZodType<UserEdit> = z.strictObject({
  role: name.optional(),
  password: z.string().min(8).max(128).meta({ format: "password", writeOnly: true }).optional(),
});

/** A role. */
export interface Role {
  readonly name: string;
  readonly permissions: readonly string[];
  readonly groups: readonly string[] | null;
  readonly builtIn: boolean;
}
export const Role: z.ZodType<Role> = z.object({
  name: z.string(),
  permissions: z.array(z.string()),
  groups: z
    .array(z.string())
    .nullable()
    .describe("Only tasks and alerts of these groups; null for all."),
  builtIn: z.boolean(),
});

/** A list of roles. */
export interface RolePage {
  readonly items: readonly Role[];
  readonly cursor: string | null;
}
export const RolePage: z.ZodType<RolePage> = z.object({
  items: z.array(Role),
  cursor: z.string().nullable(),
});

/** A new role. */
export interface NewRole {
  readonly name: string;
  readonly permissions: readonly string[];
  readonly groups?: readonly string[] | undefined;
}
export const NewRole: z.ZodType<NewRole> = z.strictObject({
  name,
  permissions: grants,
  groups: groups.optional().describe("Only tasks and alerts of these groups; all if left out."),
});

/** An API token, without its secret. */
export interface Token {
  readonly id: string;
  readonly name: string;
  readonly username: string;
  readonly permissions: readonly string[] | null;
  readonly groups: readonly string[] | null;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
}
const token = {
  id: z.string(),
  name: z.string(),
  username: z.string(),
  permissions: z.array(z.string()).nullable().describe("What it is limited to; null for all."),
  groups: z
    .array(z.string())
    .nullable()
    .describe("Only tasks and alerts of these groups; null for all of its owner's."),
  createdAt: time,
  expiresAt: time.nullable(),
  lastUsedAt: time.nullable().describe("To the minute; null if it was never used."),
};
export const Token: z.ZodType<Token> = z.object(token);

/** A list of tokens. */
export interface TokenPage {
  readonly items: readonly Token[];
  readonly cursor: string | null;
}
export const TokenPage: z.ZodType<TokenPage> = z.object({
  items: z.array(Token),
  cursor: z.string().nullable(),
});

/** The token that was made. */
export interface CreatedToken extends Token {
  readonly token: string;
}
export const CreatedToken: z.ZodType<CreatedToken> = z.object({
  ...token,
  token: z.string().describe("The secret; it is shown here and nowhere else."),
});

/** A new token for the calling account. */
export interface NewToken {
  readonly name: string;
  readonly permissions?: readonly string[] | undefined;
  readonly groups?: readonly string[] | undefined;
  readonly expiresInDays?: number | undefined;
}
export const NewToken: z.ZodType<NewToken> = z.strictObject({
  name: z.string().min(1).max(100),
  permissions: grants.optional().describe("Limits what it can do; all that you can if left out."),
  groups: groups
    .optional()
    .describe("Only tasks and alerts of these groups; all of yours if left out."),
  expiresInDays: z.number().positive().max(3_650).optional().describe("Never expires if left out."),
});

/** An entry of the audit log. */
export interface Audit {
  readonly id: string;
  readonly at: string;
  readonly actor: string;
  readonly via: string;
  readonly from: string;
  readonly action: string;
  readonly path: string;
  readonly subject: string;
  readonly requestId: string;
  readonly outcome: "started" | "done" | "refused" | "failed";
  readonly status: number;
}
export const Audit: z.ZodType<Audit> = z.object({
  id: z.string(),
  at: time,
  actor: z.string(),
  via: z.string(),
  from: z.string(),
  action: z.string(),
  path: z.string(),
  subject: z
    .string()
    .describe(
      "What was changed, such as `user ann role operator` or `task task_1_1700000000000_1`; empty if it is no single thing.",
    ),
  requestId: z.string(),
  outcome: z.enum(["started", "done", "refused", "failed"]),
  status: z.number(),
});

/** A page of the audit log, newest first. */
export interface AuditPage {
  readonly items: readonly Audit[];
  readonly cursor: string | null;
}
export const AuditPage: z.ZodType<AuditPage> = z.object({
  items: z.array(Audit),
  cursor: z.string().nullable(),
});
