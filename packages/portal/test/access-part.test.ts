/** Accounts, roles and tokens against those who would like to have more of them than they were given. */
import { openRedisStore, type Store, type Transaction } from "@ropeway/cluster";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { AuditLog } from "../src/access/audit-log.ts";
import { REFUSED_PER_HOUR } from "../src/access/auditor.ts";
import { Roles } from "../src/access/roles.ts";
import { MAX_TOKENS, Tokens } from "../src/access/tokens.ts";
import { type Account, Users } from "../src/access/users.ts";
import { kitPart } from "../src/index.ts";
import { basic, PASSWORD, Stage } from "./stage.fixture.ts";

let stage: Stage;
let admin: { authorization: string };

beforeAll(async () => {
  stage = await Stage.open({ partsOf: (redis) => [kitPart(redis)] });
  admin = await stage.bearer();
});
afterAll(() => stage.close());

type Header = { readonly authorization: string };

/** `route` is a method and a path. */
async function send(route: string, body?: unknown, headers: Header = admin) {
  const [method = "", path = ""] = route.split(" ", 2);
  const response = await stage.ask(path, { method, body, headers });
  const text = await response.text();
  return { status: response.status, body: text === "" ? {} : JSON.parse(text) };
}

async function tokenOf(headers: Header, limits: object = {}): Promise<Header> {
  const { body } = await send("POST /api/tokens", { name: "test", ...limits }, headers);
  return { authorization: `Bearer ${body.token}` };
}

async function statusOf(headers: Header, path = "/api/session"): Promise<number> {
  const response = await stage.ask(path, { headers });
  await response.text();
  return response.status;
}

test("sessions and tokens of a removed account are not those of a new one with its name", async () => {
  await stage.addAccount("eve", "operator");
  const session = await stage.bearer("eve");
  const token = await tokenOf(session);
  expect([await statusOf(session), await statusOf(token)]).toEqual([200, 200]);
  expect((await stage.ask("/api/users/eve", { method: "DELETE", headers: admin })).status).toBe(
    204,
  );
  expect([await statusOf(session), await statusOf(token)]).toEqual([401, 401]);
  expect(await new Tokens(openRedisStore(stage.redis)).list("eve")).toEqual([]);
  await stage.addAccount("eve", "admin");
  expect([await statusOf(session), await statusOf(token)]).toEqual([401, 401]);
});

test("whoever manages accounts and roles hands out no more than they have", async () => {
  const clerkGrants = { name: "clerk", permissions: ["user:edit", "role:edit", "kit:view"] };
  expect((await send("POST /api/roles", clerkGrants)).status).toBe(201);
  expect((await send("POST /api/roles", { ...clerkGrants, name: "Admin" })).status).toBe(409);
  await send("POST /api/roles", { name: "wider", permissions: ["*:*"] });
  await stage.addAccount("clark", "clerk");
  const clark = await stage.bearer("clark");
  const user = { username: "helper", role: "clerk", password: PASSWORD };
  for (const [method, path, body, status] of [
    ["POST", "/api/users", { ...user, role: "admin" }, 403],
    ["PATCH", "/api/users/clark", { role: "admin" }, 403],
    ["PATCH", "/api/users/admin", { password: "taken over" }, 403],
    ["DELETE", "/api/users/admin", undefined, 403],
    ["POST", "/api/roles", { name: "more", permissions: ["*:*"] }, 403],
    ["DELETE", "/api/roles/wider", undefined, 403],
    ["DELETE", "/api/roles/none", undefined, 404],
    ["POST", "/api/roles", { name: "same", permissions: ["kit:view"] }, 201],
    ["DELETE", "/api/roles/same", undefined, 204],
    ["POST", "/api/users", user, 201],
    ["DELETE", "/api/users/helper", undefined, 204],
  ] as const) {
    expect([path, (await send(`${method} ${path}`, body, clark)).status]).toEqual([path, status]);
  }
  // A token that is limited to accounts is no way to everything either.
  const limited = await tokenOf(admin, { permissions: ["user:edit"] });
  expect((await send("POST /api/users", { ...user, role: "admin" }, limited)).status).toBe(403);
});

test("whoever manages accounts in some groups hands out nothing in others", async () => {
  const permissions = ["user:edit", "role:edit", "kit:view"];
  await send("POST /api/roles", { name: "foreman", permissions, groups: ["a", "b"] });
  await send("POST /api/roles", { name: "kit-all", permissions: ["kit:view"] });
  await stage.addAccount("fay", "foreman");
  const fay = await stage.bearer("fay");
  const make = async (name: string, groups?: string[]) =>
    (await send("POST /api/roles", { name, permissions: ["kit:view"], groups }, fay)).status;
  expect([await make("r1"), await make("r2", ["a", "c"]), await make("r3", ["a"])]).toEqual([
    403, 403, 201,
  ]);
  const hire = async (username: string, role: string) =>
    (await send("POST /api/users", { username, role, password: PASSWORD }, fay)).status;
  expect([await hire("u1", "kit-all"), await hire("u2", "r3")]).toEqual([403, 201]);
});

test("a token says when it was used, and an account has a bounded number of them", async () => {
  await stage.addAccount("many", "viewer");
  const many = await stage.bearer("many");
  const account = await stage.users.get("many");
  const tokens = new Tokens(openRedisStore(stage.redis, { prefix: "ropeway:store" }));
  if (account === undefined) throw new Error("no account");
  const limits = { name: "t", account, permissions: null, groups: null };
  const { info } = await tokens.create({ ...limits, expiresAt: 1 });
  const used = await tokenOf(many);
  expect((await tokens.list("many")).map(({ id }) => id)).not.toContain(info.id); // made room
  expect((await tokens.list("many"))[0]?.lastUsedAt).toBeNull();
  expect(await statusOf(used)).toBe(200);
  const { body } = await send("GET /api/tokens", undefined, many);
  expect(body.items[0].lastUsedAt).toMatch(/^\d{4}-/);
  for (let made = 1; made < MAX_TOKENS; made++) await tokens.create({ ...limits, expiresAt: null });
  expect(await send("POST /api/tokens", { name: "one more" }, many)).toMatchObject({
    status: 409,
    body: { code: "TOO_MANY_TOKENS" },
  });
});

test("refused requests of one account cannot push real entries out of the audit log", async () => {
  await stage.addAccount("noisy", "viewer");
  const noisy = await stage.bearer("noisy");
  for (let asked = 0; asked < REFUSED_PER_HOUR + 20; asked++) {
    expect((await send("POST /api/roles", {}, noisy)).status).toBe(403);
  }
  const log = new AuditLog(openRedisStore(stage.redis, { prefix: "ropeway:store" }));
  await eventually(async () => {
    const { items } = await log.list({ actor: "noisy", limit: 500 });
    const refused = items.filter(({ outcome }) => outcome === "refused");
    expect(refused.length).toBe(REFUSED_PER_HOUR);
  });
});

test("cursors that no list returned are refused", async () => {
  for (const list of ["locks", "semaphores", "rooms", "transfers"]) {
    for (const cursor of ["18446744073709551616", "99999999999999999999", "-1", "x"]) {
      const path = `/api/kit/${list}?cursor=${cursor}`;
      expect([path, await statusOf(admin, path)]).toEqual([path, 400]);
    }
  }
});

test("an empty list of permissions or groups is refused, and a stored one allows nothing", async () => {
  const role = { permissions: ["kit:view"] };
  for (const limits of [{ groups: [] }, { permissions: [] }, { permissions: [], groups: [] }]) {
    expect((await send("POST /api/tokens", { name: "none", ...limits })).status).toBe(400);
    const refused = await send("POST /api/roles", { name: "none", ...role, ...limits });
    expect(refused.status).toBe(400);
  }
  const account = (await stage.users.get("admin")) as Account;
  const { token } = await new Tokens(openRedisStore(stage.redis)).create({
    name: "stored",
    account,
    permissions: [],
    groups: [],
    expiresAt: null,
  });
  const { body } = await send("GET /api/session", undefined, { authorization: `Bearer ${token}` });
  expect(body).toMatchObject({ groups: [] });
  expect(body.permissions).not.toContain("user:view");
});

test("a role without groups is one of all groups, and is shown with null", async () => {
  await send("POST /api/roles", { name: "wide", permissions: ["kit:view"] });
  const { body } = await send("GET /api/roles");
  const groupsOf = (name: string) =>
    body.items.find((role: { name: string }) => role.name === name).groups;
  expect([groupsOf("wide"), groupsOf("admin")]).toEqual([null, null]);
  // As roles were stored before there was null.
  await new Roles(openRedisStore(stage.redis)).create({
    name: "former",
    permissions: ["kit:view"],
    groups: [],
  });
  await stage.addAccount("fred", "former");
  expect((await send("GET /api/session", undefined, await stage.bearer("fred"))).body.groups).toBe(
    null,
  );
});

test("a token with limits revokes itself, and no other token of its owner", async () => {
  await stage.addAccount("robin", "operator");
  const robin = await stage.bearer("robin");
  const make = async (body: object) => (await send("POST /api/tokens", body, robin)).body;
  const other = await make({ name: "other" });
  for (const limit of [{ permissions: ["kit:view"] }, { groups: ["team-a"] }]) {
    const limited = await make({ name: "limited", ...limit });
    const headers = { authorization: `Bearer ${limited.token}` };
    expect((await send(`DELETE /api/tokens/${other.id}`, undefined, headers)).status).toBe(403);
    expect((await send(`DELETE /api/tokens/${limited.id}`, undefined, headers)).status).toBe(204);
  }
  const whole = { authorization: `Bearer ${other.token}` };
  expect((await send(`DELETE /api/tokens/${other.id}`, undefined, whole)).status).toBe(204);
});

test("tokens expire, and audit entries are ordered, by the clock of Redis and not by that of the portal", async () => {
  const admin = await stage.bearer();
  const make = async (body: object) => (await send("POST /api/tokens", body, admin)).body;
  const { token } = await make({ name: "for a day", expiresInDays: 1 });
  const { now } = Date;
  const ahead = vi.spyOn(Date, "now").mockImplementation(() => now() + 2 * 86_400_000);
  try {
    expect(await statusOf({ authorization: `Bearer ${token}` }, "/api/session")).toBe(200);
    const { createdAt } = await make({ name: "for ever" });
    expect(Date.parse(String(createdAt))).toBeLessThan(now() + 60_000);
    const { items } = await new AuditLog(openRedisStore(stage.redis)).list({ limit: 1 });
    expect(items[0]?.at).toBeLessThan(now() + 60_000);
  } finally {
    ahead.mockRestore();
  }
});

test("a wrong password in an Authorization header is in the audit log once, like a login that failed", async () => {
  const log = new AuditLog(openRedisStore(stage.redis));
  const guess = basic("admin", "a wrong password");
  const statuses = await Promise.all([1, 2, 3].map(() => statusOf(guess, "/api/users")));
  expect(statuses).toEqual([401, 401, 401]);
  await statusOf(basic("a-password-here", "x"), "/api/roles");
  await eventually(async () => {
    const { items } = await log.list({ limit: 500 });
    const failed = items.filter(({ action }) => /^GET /.test(action));
    expect(failed.map(({ actor, via, outcome, status }) => [actor, via, outcome, status])).toEqual([
      ["-", "-", "refused", 401],
      ["admin", "-", "refused", 401],
    ]);
  });
});

test("tokens that are made at the same moment are not more than an account may have", async () => {
  const tokens = new Tokens(openRedisStore(stage.redis));
  const account = { username: "crowd", id: 1 };
  const limits = { permissions: null, groups: null, expiresAt: null };
  const made = await Promise.allSettled(
    Array.from({ length: MAX_TOKENS + 20 }, (_, i) =>
      tokens.create({ account, name: `${i}`, ...limits }),
    ),
  );
  const kept = (await tokens.list("crowd")).length;
  expect(kept).toBeLessThanOrEqual(MAX_TOKENS);
  expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(kept);
});

/** The store; `before` is awaited before each transaction. */
function gated(store: Store, before: () => Promise<unknown>): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name !== "txn") return value.bind(target);
      return async (transaction: Transaction) => {
        await before();
        return target.txn(transaction);
      };
    },
  });
}

test("a token that is revoked while it is used stays revoked", async () => {
  const store = openRedisStore(stage.redis);
  const account = (await stage.users.get("admin")) as Account;
  const limits = { name: "t", permissions: null, groups: null, expiresAt: null };
  const { info, token } = await new Tokens(store).create({ ...limits, account });
  const used = new Tokens(gated(store, () => new Tokens(store).revoke(info.id)));
  await used.check(token, async () => account);
  await expect(used.get(info.id)).rejects.toMatchObject({ code: "UNKNOWN_TOKEN" });
});

test("of two admins who remove each other at once, one stays", async () => {
  const store = openRedisStore(stage.redis, { prefix: "admins:store" });
  const names = ["one", "two"];
  for (const username of names) {
    await new Users(store).create({ username, role: "admin", passwordHash: "hash" });
  }
  // Both have read that there is another admin before one of them writes.
  let arrived = 0;
  let bothAreHere = () => {};
  const together = new Promise<void>((resolve) => {
    bothAreHere = resolve;
  });
  const users = new Users(
    gated(store, async () => {
      if (++arrived === 2) bothAreHere();
      await together;
    }),
  );
  const results = await Promise.allSettled(names.map((name) => users.remove(name)));
  const refused = results.filter((one) => one.status === "rejected");
  expect(refused).toMatchObject([{ reason: { code: "PROTECTED" } }]);
  expect(await new Users(store).list()).toHaveLength(1);
});

test("nothing is changed that the audit log cannot note", async () => {
  const log = "ropeway:store:@log";
  const headers = await stage.bearer();
  await stage.server.command("RENAME", log, "aside");
  await stage.server.command("SET", log, "foreign");
  const { status } = await send("DELETE /api/session", undefined, headers);
  await stage.server.command("RENAME", "aside", log);
  expect(status).toBeGreaterThanOrEqual(500);
  expect(await statusOf(headers)).toBe(200);
  expect((await send("DELETE /api/session", undefined, headers)).status).toBe(204);
  expect(await statusOf(headers)).toBe(401);
});

test("the audit log says what was changed: also what was created, and which role an account was given", async () => {
  const role = { name: "night-shift", permissions: ["kit:view"] };
  const user = { username: "Nora", role: "night-shift", password: PASSWORD };
  const made = (await send("POST /api/tokens", { name: "ci" })).body;
  await send("POST /api/roles", role);
  await send("POST /api/users", user);
  await send("PATCH /api/users/nora", { role: "viewer", password: "another password" });
  await send("POST /api/users", { ...user, username: "olga", role: "no-such-role" });
  await send(`DELETE /api/tokens/${made.id}`);
  await send("DELETE /api/users/nora");
  await send("DELETE /api/roles/night-shift");
  await send("POST /api/kit/locks/nightly%20run/break");
  await eventually(async () => {
    const { body } = await send("GET /api/audit?limit=9");
    const seen = body.items.map((entry: { subject: string; outcome: string }) => [
      entry.subject,
      entry.outcome,
    ]);
    expect(seen.toReversed()).toEqual([
      [`token ${made.id} user admin`, "done"],
      ["role night-shift", "done"],
      ["user nora role night-shift", "done"],
      ["user nora role viewer password", "done"],
      ["user olga role no-such-role", "failed"],
      [`token ${made.id} user admin`, "done"],
      ["user nora", "done"],
      ["role night-shift", "done"],
      ["lock nightly run", "done"],
    ]);
  });
});

test("the audit log names the account of a login, a logout and a new password", async () => {
  const pia = { username: "pia", role: "viewer", password: PASSWORD };
  await send("POST /api/users", pia);
  await stage.login({ username: "pia", password: "wrong password" });
  const headers = await stage.bearer("pia");
  const next = { current: PASSWORD, next: "another password" };
  await stage.ask("/api/session/password", { method: "PUT", headers, body: next });
  await stage.ask("/api/session", { method: "DELETE", headers });
  await eventually(async () => {
    const { body } = await send("GET /api/audit?actor=pia");
    const seen = body.items.map((entry: { action: string; subject: string }) => [
      entry.action,
      entry.subject,
    ]);
    expect(seen.toReversed()).toEqual([
      ["POST /api/session", "user pia"],
      ["POST /api/session", "user pia"],
      ["PUT /api/session/password", "user pia"],
      ["DELETE /api/session", "user pia"],
    ]);
  });
});

test("accounts and tokens come in pages, past records of other programs", async () => {
  await using stage = await Stage.open();
  const headers = await stage.bearer();
  await using store = openRedisStore(stage.redis);
  for (const name of ["ann", "bob", "cid", "dan"]) await stage.addAccount(name, "operator");
  const ann = await stage.bearer("ann");
  for (const owner of [headers, ann, headers, ann, ann]) {
    await stage.ask("/api/tokens", { method: "POST", headers: owner, body: { name: "t" } });
  }
  for (const path of ["/tasks/user/b", "/tasks/user/b/ann", "/tasks/token/0", "/tasks/token/f/0"]) {
    await store.put(path, "{}");
  }
  const pages = async (path: string, limit: number, auth: Header = headers) => {
    const found: string[][] = [];
    let cursor: string | null = "";
    while (cursor !== null && found.length < 20) {
      const query = `limit=${limit}${cursor === "" ? "" : `&cursor=${cursor}`}`;
      const response = await stage.ask(`${path}?${query}`, { headers: auth });
      const page = (await response.json()) as {
        items: { id?: string; username: string }[];
        cursor: string | null;
      };
      found.push(page.items.map(({ id, username }) => id ?? username));
      cursor = page.cursor;
    }
    return found;
  };
  const names = ["admin", "ann", "bob", "cid", "dan"];
  expect(await pages("/api/users", 2)).toEqual([["admin", "ann"], ["bob", "cid"], ["dan"]]);
  expect(await pages("/api/users", 5)).toEqual([names]);
  const all = (await new Tokens(store).list()).map(({ id }) => id);
  const own = (await new Tokens(store).list("ann")).map(({ id }) => id);
  expect([all.length, own.length]).toEqual([5, 3]);
  expect(await pages("/api/tokens", 2)).toEqual([all.slice(0, 2), all.slice(2, 4), all.slice(4)]);
  expect(await pages("/api/tokens", 2, ann)).toEqual([own.slice(0, 2), own.slice(2)]);
  expect((await stage.ask("/api/users?limit=501", { headers })).status).toBe(400);
  expect((await stage.ask("/api/tokens?cursor=/", { headers })).status).toBe(400);
});
