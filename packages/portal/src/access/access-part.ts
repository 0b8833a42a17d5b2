/** Users, roles, API tokens and the audit log. */
import { type Clock, InvalidArgumentError } from "@ropeway/core";
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { ForbiddenError, UnknownAccountError } from "../errors.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import {
  type Audit,
  AuditPage,
  CreatedToken,
  CreatedUser,
  NewRole,
  NewToken,
  NewUser,
  Role,
  RolePage,
  type Token,
  TokenPage,
  User,
  UserEdit,
  UserPage,
} from "./access-contract.ts";
import type { AuditEntry, AuditLog } from "./audit-log.ts";
import { randomPassword, usernameOf } from "./credentials.ts";
import { callerOf, rightsOf } from "./guard.ts";
import type { PasswordHasher } from "./hasher.ts";
import { BUILT_IN_ROLES, needs, type PermissionSpecs, type Policy } from "./permission.ts";
import { beyond, type Rights, type RightsFinder } from "./rights.ts";
import type { Roles } from "./roles.ts";
import { noteSubject } from "./subject.ts";
import { isLimited, type TokenInfo, type Tokens } from "./tokens.ts";
import type { Account, AccountInfo, RoleCheck, Users } from "./users.ts";

/** What the part works with. */
export interface AccessPartPlan {
  readonly users: Users;
  readonly roles: Roles;
  readonly tokens: Tokens;
  readonly auditLog: AuditLog;
  readonly hasher: PasswordHasher;
  readonly clock: Clock;
  policy(): Policy;
  rights(): RightsFinder;
}

const DAY_MS = 86_400_000;
const NO_BODY = z.undefined().describe("Done.");
const NamePath = z.object({ name: z.string().min(1).max(64) });
const IdPath = z.object({ id: z.string().min(1).max(64) });
const paging = {
  cursor: z.string().max(500).optional(),
  limit: z.coerce.number().int().min(1).max(500).default(50),
};
const Paging = z.object(paging);
const AuditQuery = z.object({ actor: z.string().max(64).optional(), ...paging });

/** The permissions of its routes. */
export const accessPermissions: PermissionSpecs = {
  "user:view": { least: "admin", means: "See the accounts." },
  "user:edit": { least: "admin", means: "Create, change and remove accounts." },
  "role:view": { least: "admin", means: "See the roles." },
  "role:edit": { least: "admin", means: "Create and remove roles." },
  "token:own": { least: "everyone", means: "Make, see and revoke your own API tokens." },
  "token:edit": { least: "admin", means: "See and revoke the API tokens of others." },
  "audit:view": { least: "admin", means: "Read the audit log." },
};

/** The part for users, roles, tokens and the audit log. */
export function accessPart(plan: AccessPartPlan): PortalPart {
  return {
    name: "access",
    about: {
      en: "Users, roles, API tokens and the audit log.",
      zh: "用户、角色、API 令牌与审计日志。",
    },
    permissions: accessPermissions,
    routes(app) {
      addUsers(app, plan);
      addRoles(app, plan);
      addTokens(app, plan);
      addAudit(app, plan);
    },
  };
}

function addUsers(app: PortalApp, plan: AccessPartPlan): void {
  const { users, roles, hasher, rights } = plan;
  app.get(
    "/api/users",
    {
      config: needs("user:view"),
      schema: { summary: "List accounts", querystring: Paging, response: { 200: UserPage } },
    },
    async (request) => {
      const { items, cursor } = await users.page(request.query);
      return { items: items.map(userView), cursor: cursor ?? null };
    },
  );
  app.post(
    "/api/users",
    {
      config: needs("user:edit"),
      schema: { summary: "Create an account", body: NewUser, response: { 201: CreatedUser } },
    },
    async (request, reply) => {
      const { role, password = randomPassword() } = request.body;
      const username = usernameOf(request.body.username) ?? request.body.username;
      noteSubject(request, "user", username, "role", role);
      await roles.check(role);
      checkGrant(request, await rights().ofRole(role));
      const passwordHash = await hasher.hash(password);
      const mayGive = roleCheck(request, plan);
      const created = userView(await users.create({ username, role, passwordHash }, mayGive));
      const shown = request.body.password === undefined ? { ...created, password } : created;
      return reply.code(201).send(shown);
    },
  );
  app.patch(
    "/api/users/:name",
    {
      config: needs("user:edit"),
      schema: {
        summary: "Change an account's role or password",
        description:
          "A new password ends all its sessions. Needs every permission that the account has or gets.",
        params: NamePath,
        body: UserEdit,
        response: { 200: User },
      },
    },
    async (request) => {
      const { role, password } = request.body;
      const username = request.params.name.toLowerCase();
      const changed = role === undefined ? [] : ["role", role];
      if (password !== undefined) changed.push("password");
      noteSubject(request, "user", username, ...changed);
      const check = roleCheck(request, plan);
      const account = await changeable(username, check, plan);
      if (role !== undefined) {
        await roles.check(role);
        await check(role);
      }
      const passwordHash = password === undefined ? undefined : await hasher.hash(password);
      return userView(await users.edit(account, { role, passwordHash }, check));
    },
  );
  app.delete(
    "/api/users/:name",
    {
      config: needs("user:edit"),
      schema: { summary: "Remove an account", params: NamePath, response: { 204: NO_BODY } },
    },
    async (request, reply) => {
      await users.remove(request.params.name.toLowerCase(), roleCheck(request, plan));
      return reply.code(204).send();
    },
  );
}

function addRoles(app: PortalApp, { roles, policy, rights }: AccessPartPlan): void {
  app.get(
    "/api/roles",
    { config: needs("role:view"), schema: { summary: "List roles", response: { 200: RolePage } } },
    async () => {
      const builtIn = BUILT_IN_ROLES.map((name) => ({
        name,
        permissions: policy().allowedTo(name),
        groups: null,
        builtIn: true,
      }));
      const custom = (await roles.list()).map((role) => ({ ...role, builtIn: false }));
      return { items: [...builtIn, ...custom], cursor: null };
    },
  );
  app.post(
    "/api/roles",
    {
      config: needs("role:edit"),
      schema: { summary: "Create a role", body: NewRole, response: { 201: Role } },
    },
    async (request, reply) => {
      const { name, permissions, groups = null } = request.body;
      noteSubject(request, "role", name);
      policy().checkGrants(permissions);
      for (const grant of permissions) {
        if (
          policy()
            .coveredBy([grant])
            .every((one) => policy().isForEveryone(one))
        ) {
          const allowed = "a permission that not every account has anyway";
          throw new InvalidArgumentError("permissions", grant, allowed);
        }
      }
      checkGrant(request, rights().granted({ permissions, groups }));
      const created = await roles.create({ name, permissions, groups });
      return reply.code(201).send({ ...created, builtIn: false });
    },
  );
  app.delete(
    "/api/roles/:name",
    {
      config: needs("role:edit"),
      schema: {
        summary: "Remove a role that no account has",
        description: "Needs every permission that the role has.",
        params: NamePath,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      await roles.remove(name, (role) => checkGrant(request, rights().granted(role)));
      return reply.code(204).send();
    },
  );
}

function addTokens(app: PortalApp, { tokens, policy, clock }: AccessPartPlan): void {
  app.get(
    "/api/tokens",
    {
      config: needs("token:own"),
      schema: {
        summary: "List your API tokens; with token:edit those of all accounts",
        querystring: Paging,
        response: { 200: TokenPage },
      },
    },
    async (request) => {
      const all = rightsOf(request).permissions.includes("token:edit");
      const username = all ? undefined : callerOf(request).account.username;
      const { items, cursor } = await tokens.page({ ...request.query, username });
      return { items: items.map(tokenView), cursor: cursor ?? null };
    },
  );
  app.post(
    "/api/tokens",
    {
      config: needs("token:own"),
      schema: { summary: "Create an API token", body: NewToken, response: { 201: CreatedToken } },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      // A token that could make tokens would outlive its own limits.
      if (caller.token !== undefined) throw new ForbiddenError("an API token", "token:own");
      const { name, permissions = null, groups = null, expiresInDays } = request.body;
      policy().checkGrants(permissions ?? []);
      const expiresAt = expiresInDays === undefined ? null : clock.now() + expiresInDays * DAY_MS;
      const { info, token } = await tokens.create({
        name,
        account: caller.account,
        permissions,
        groups,
        expiresAt,
      });
      noteSubject(request, "token", info.id, "user", info.username);
      return reply.code(201).send({ ...tokenView(info), token });
    },
  );
  app.delete(
    "/api/tokens/:id",
    {
      config: needs("token:own"),
      schema: { summary: "Revoke an API token", params: IdPath, response: { 204: NO_BODY } },
    },
    async (request, reply) => {
      const { id } = request.params;
      const { username } = await tokens.get(id);
      noteSubject(request, "token", id, "user", username);
      const { account, token } = callerOf(request);
      // A token with limits is for one purpose: it can revoke itself, but no other token of its owner.
      const limited = token !== undefined && isLimited(token);
      const mine = username === account.username && (!limited || token.id === id);
      if (!mine && !rightsOf(request).permissions.includes("token:edit")) {
        throw new ForbiddenError(limited ? "an API token" : account.role, "token:edit");
      }
      await tokens.revoke(id);
      return reply.code(204).send();
    },
  );
}

function addAudit(app: PortalApp, { auditLog }: AccessPartPlan): void {
  app.get(
    "/api/audit",
    {
      config: needs("audit:view"),
      schema: {
        summary: "List changes, newest first",
        querystring: AuditQuery,
        response: { 200: AuditPage },
      },
    },
    async (request) => {
      const { items, cursor } = await auditLog.list(request.query);
      return { items: items.map(auditView), cursor: cursor ?? null };
    },
  );
}

/** The account, if the caller has at least its rights. */
async function changeable(
  username: string,
  check: RoleCheck,
  { users }: AccessPartPlan,
): Promise<Account> {
  const account = await users.get(username);
  if (account === undefined) throw new UnknownAccountError(username);
  await check(account.role);
  return account;
}

/** Throws if a role has permissions that the caller does not have. */
function roleCheck(request: FastifyRequest, { rights }: AccessPartPlan): RoleCheck {
  return async (role) => checkGrant(request, await rights().ofRole(role));
}

/** Throws if the change would give the caller, through another account or role, more than their own permissions. */
function checkGrant(request: FastifyRequest, wanted: Rights): void {
  const missing = beyond(rightsOf(request), wanted);
  if (missing === undefined) return;
  throw new ForbiddenError(callerOf(request).account.role, missing);
}

function userView({ username, role, createdAt, passwordAt }: AccountInfo): User {
  return { username, role, createdAt: iso(createdAt), passwordAt: iso(passwordAt) };
}

function tokenView(token: TokenInfo): Token {
  const { createdAt, expiresAt, lastUsedAt } = token;
  return {
    ...token,
    createdAt: iso(createdAt),
    expiresAt: expiresAt === null ? null : iso(expiresAt),
    lastUsedAt: lastUsedAt === null ? null : iso(lastUsedAt),
  };
}

function auditView(entry: AuditEntry): Audit {
  return { ...entry, at: iso(entry.at) };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
