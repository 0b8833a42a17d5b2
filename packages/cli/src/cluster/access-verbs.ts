/** What `ropeway user`, `role`, `token` and `audit` do: directly in the store, as its operator. */
import { InvalidArgumentError } from "@ropeway/core";
import { PasswordConflictError, UnknownAccountError } from "@ropeway/portal";
import {
  AuditLog,
  BUILT_IN_ROLES,
  builtInPolicy,
  PasswordHasher,
  passwordFault,
  Roles,
  randomPassword,
  Tokens,
  USERNAME_ALLOWED,
  Users,
  usernameOf,
} from "@ropeway/portal/internal";
import type { Context } from "../context.ts";
import { durationOf } from "../duration.ts";
import { UsageError } from "../errors.ts";
import { askPassword } from "../user/ask-password.ts";
import { wholeNumber } from "../whole-number.ts";
import { openCluster } from "./open-cluster.ts";

type Verb = (context: Context) => Promise<void>;

const DAY_MS = 86_400_000;
const LONGEST_LIFE_DAYS = 3_650;

const iso = (ms: number) => new Date(ms).toISOString();
const wordsOf = (value: unknown) =>
  value === undefined
    ? undefined
    : String(value)
        .split(",")
        .map((word) => word.trim())
        .filter(Boolean);

/** The grants of --permissions; undefined if it was not given. */
function permissionsOf(value: unknown): string[] | undefined {
  const permissions = wordsOf(value);
  if (permissions?.length === 0) {
    throw new UsageError("--permissions must be permissions such as task:operate,node:view");
  }
  builtInPolicy().checkGrants(permissions ?? []);
  return permissions;
}

/** The names of --groups; null for all groups if it was not given. An empty list is refused as ambiguous. */
function groupsOf(value: unknown): string[] | null {
  const groups = wordsOf(value) ?? null;
  if (groups?.length === 0) {
    throw new UsageError(
      "--groups must be names such as shop,billing; leave it out for all groups",
    );
  }
  return groups;
}

async function userList(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const items = (await new Users(opened.store).list()).map((account) => ({
    ...account,
    createdAt: iso(account.createdAt),
    passwordAt: iso(account.passwordAt),
  }));
  context.output.list(
    { items },
    {
      columns: {
        NAME: ({ username }) => username,
        ROLE: ({ role }) => role,
        CREATED: ({ createdAt }) => createdAt,
        "PASSWORD SET": ({ passwordAt }) => passwordAt,
      },
      empty: "no accounts yet: the first start of `ropeway up` or `ropeway portal` creates admin",
    },
  );
}

async function userAdd(context: Context): Promise<void> {
  const [given = ""] = context.arguments;
  const username = usernameOf(given);
  if (username === undefined)
    throw new InvalidArgumentError("the user name", given, USERNAME_ALLOWED);
  const role = String(context.options.role ?? "viewer");
  const { password, shown } = await newPassword(username, context);
  await using opened = await openCluster(context);
  await new Roles(opened.store).check(role);
  const passwordHash = await new PasswordHasher().hash(password);
  await opened.audited(
    { action: `user add ${username} ${role}`, subject: `user ${username} role ${role}` },
    () => new Users(opened.store).create({ username, role, passwordHash }),
  );
  context.output.outcome(
    "added",
    { username, role, ...(shown && { password }) },
    shown
      ? `${username} / ${password}   (shown only once)`
      : `account ${username} added with the role ${role}`,
  );
}

async function userRemove(context: Context): Promise<void> {
  const username = (context.arguments[0] ?? "").toLowerCase();
  await using opened = await openCluster(context);
  await opened.audited({ action: `user remove ${username}`, subject: `user ${username}` }, () =>
    new Users(opened.store).remove(username),
  );
  context.output.outcome(
    "removed",
    { username },
    `account ${username} removed; its sessions and tokens have ended`,
  );
}

async function userPassword(context: Context): Promise<void> {
  const username = (context.arguments[0] ?? "").toLowerCase();
  const { password, shown } = await newPassword(username, context);
  await using opened = await openCluster(context);
  const users = new Users(opened.store);
  const account = await users.get(username);
  if (account === undefined) throw new UnknownAccountError(username);
  const hash = await new PasswordHasher().hash(password);
  const what = { action: `user password ${username}`, subject: `user ${username} password` };
  await opened.audited(what, async () => {
    const done = await users.setPassword(account, hash, { ends: true });
    if (done === undefined) throw new PasswordConflictError(username);
  });
  context.output.outcome(
    "password-set",
    { username, ...(shown && { password }) },
    shown
      ? `${username} / ${password}   (shown only once)`
      : `password of ${username} set; its sessions have ended`,
  );
}

async function userRole(context: Context): Promise<void> {
  const [given = "", role = ""] = context.arguments;
  const username = given.toLowerCase();
  await using opened = await openCluster(context);
  await new Roles(opened.store).check(role);
  await opened.audited(
    { action: `user role ${username} ${role}`, subject: `user ${username} role ${role}` },
    () => new Users(opened.store).setRole(username, role),
  );
  context.output.outcome("changed", { username, role }, `${username} has the role ${role} now`);
}

/** A new password: generated or typed, never an argument. */
async function newPassword(username: string, context: Context) {
  if (context.options.generate === true) return { password: randomPassword(), shown: true };
  const password = await askPassword(username, context);
  const fault = passwordFault(password);
  if (fault !== undefined) {
    const found = password === "" ? "empty" : `${[...password].length} characters long`;
    throw new UsageError(`the password is ${found}, but must be ${fault}`);
  }
  return { password, shown: false };
}

async function roleList(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const custom = await new Roles(opened.store).list();
  const builtIn = BUILT_IN_ROLES.map((name) => ({
    name,
    permissions: builtInPolicy().allowedTo(name),
    groups: null,
  }));
  context.output.list(
    {
      items: [
        ...builtIn.map((role) => ({ ...role, builtIn: true })),
        ...custom.map((role) => ({ ...role, builtIn: false })),
      ],
    },
    {
      columns: {
        NAME: ({ name }) => name,
        PERMISSIONS: ({ permissions, builtIn: fixed }) =>
          fixed ? "(built in)" : permissions.join(" "),
        GROUPS: ({ groups }) => groups?.join(" ") ?? "all",
      },
      empty: "no roles",
    },
  );
}

async function roleAdd(context: Context): Promise<void> {
  const [name = ""] = context.arguments;
  const permissions = permissionsOf(context.options.permissions) ?? [];
  if (usernameOf(name) === undefined)
    throw new InvalidArgumentError("the role's name", name, USERNAME_ALLOWED);
  const groups = groupsOf(context.options.groups);
  await using opened = await openCluster(context);
  const role = await opened.audited({ action: `role add ${name}`, subject: `role ${name}` }, () =>
    new Roles(opened.store).create({ name, permissions, groups }),
  );
  context.output.outcome("added", { ...role }, `role ${name} added`);
}

async function roleRemove(context: Context): Promise<void> {
  const [name = ""] = context.arguments;
  await using opened = await openCluster(context);
  await opened.audited({ action: `role remove ${name}`, subject: `role ${name}` }, () =>
    new Roles(opened.store).remove(name),
  );
  context.output.outcome("removed", { name }, `role ${name} removed`);
}

async function tokenList(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const items = (await new Tokens(opened.store).list()).map((token) => ({
    ...token,
    createdAt: iso(token.createdAt),
    expiresAt: token.expiresAt === null ? null : iso(token.expiresAt),
    lastUsedAt: token.lastUsedAt === null ? null : iso(token.lastUsedAt),
  }));
  context.output.list(
    { items },
    {
      columns: {
        ID: ({ id }) => id,
        NAME: ({ name }) => name,
        USER: ({ username }) => username,
        PERMISSIONS: ({ permissions }) => permissions?.join(" ") ?? "all of its user",
        EXPIRES: ({ expiresAt }) => expiresAt ?? "never",
        "LAST USED": ({ lastUsedAt }) => lastUsedAt ?? "never",
      },
      empty: "no tokens: make one with `ropeway token add`",
    },
  );
}

async function tokenAdd(context: Context): Promise<void> {
  const [name = ""] = context.arguments;
  const { options, output } = context;
  const username = String(options.user ?? "admin").toLowerCase();
  const lifeMs = lifeOf(options);
  await using opened = await openCluster(context);
  const { store, clock } = opened;
  const account = await new Users(store).get(username);
  if (account === undefined) throw new UnknownAccountError(username);
  const limits = {
    permissions: permissionsOf(options.permissions) ?? null,
    groups: groupsOf(options.groups),
    expiresAt: lifeMs === undefined ? null : Math.floor(clock.now() + lifeMs),
  };
  const { info, token } = await opened.audited(
    {
      action: `token add ${username}`,
      subject: `user ${username}`,
      fullSubject: (made) => `token ${made.info.id} user ${username}`,
    },
    () => new Tokens(store, clock).create({ name, account, ...limits }),
  );
  output.outcome("added", { id: info.id, name, username, token }, `${token}   (shown only once)`);
}

/** The lifetime of a new token; undefined if it never expires. */
function lifeOf(options: Context["options"]): number | undefined {
  const { expiresInDays: days } = options;
  if (days !== undefined && options.expiresIn !== undefined) {
    throw new UsageError("pass --expires-in or --expires-in-days, not both");
  }
  const lifeMs = days === undefined ? durationOf(options, "expiresIn", 1) : Number(days) * DAY_MS;
  if (lifeMs === undefined || (lifeMs > 0 && lifeMs <= LONGEST_LIFE_DAYS * DAY_MS)) return lifeMs;
  const [flag, unit] = days === undefined ? ["--expires-in", "d"] : ["--expires-in-days", ""];
  throw new UsageError(`${flag} must be more than 0 and at most ${LONGEST_LIFE_DAYS}${unit}`);
}

async function tokenRevoke(context: Context): Promise<void> {
  const [id = ""] = context.arguments;
  await using opened = await openCluster(context);
  const tokens = new Tokens(opened.store);
  await opened.audited(
    {
      action: `token revoke ${id}`,
      subject: `token ${id}`,
      fullSubject: (username) => `token ${id} user ${username}`,
    },
    async () => {
      const { username } = await tokens.get(id);
      await tokens.revoke(id);
      return username;
    },
  );
  context.output.outcome("revoked", { id }, `token ${id} revoked`);
}

async function auditList(context: Context): Promise<void> {
  const { options, output } = context;
  await using opened = await openCluster(context);
  const page = await new AuditLog(opened.store).list({
    actor: options.actor === undefined ? undefined : String(options.actor),
    cursor: options.cursor === undefined ? undefined : String(options.cursor),
    limit: wholeNumber(options, "limit", 1) ?? 50,
  });
  const items = page.items.map((entry) => ({ ...entry, at: iso(entry.at) }));
  output.list(
    { items, cursor: page.cursor },
    {
      columns: {
        AT: ({ at }) => at,
        ACTOR: ({ actor }) => actor,
        FROM: ({ from }) => from,
        OUTCOME: ({ outcome }) => outcome,
        ACTION: ({ path, action, via }) =>
          via === "cli" ? action : `${action.split(" ", 1)[0]} ${path}`,
        SUBJECT: ({ subject }) => subject || "-",
      },
      empty:
        "the audit log is empty: it lists changes to tasks, nodes and accounts, and every change made in the portal",
    },
  );
}

/** By noun and verb on the command line. */
export const verbs: Readonly<Record<string, Verb>> = {
  "user list": userList,
  "user add": userAdd,
  "user remove": userRemove,
  "user password": userPassword,
  "user role": userRole,
  "role list": roleList,
  "role add": roleAdd,
  "role remove": roleRemove,
  "token list": tokenList,
  "token add": tokenAdd,
  "token revoke": tokenRevoke,
  "audit list": auditList,
};
