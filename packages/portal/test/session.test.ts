import { expectNoKeys } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AccessStore, MAX_SESSIONS } from "../src/access/store.ts";
import type { Account } from "../src/access/users.ts";
import { basic, cookieOf, PASSWORD, problemOf, Stage } from "./stage.fixture.ts";

let stage: Stage;

beforeAll(async () => {
  stage = await Stage.open({ trustProxy: "127.0.0.1" });
});

afterAll(() => stage.close());

// Each test tries from an address of its own, so that throttling one does not stop the others.
let tries = 0;
const elsewhere = () => ({ "x-forwarded-for": `10.0.0.${++tries}` });

test("a login sets a cookie that scripts cannot read, and the cookie says who one is", async () => {
  const login = await stage.login({}, elsewhere());
  expect(login.status).toBe(201);
  const [cookie] = login.headers.getSetCookie();
  expect(cookie).toMatch(
    /^ropeway_session=rws_[\w-]{43}; Path=\/; Expires=.*; HttpOnly; SameSite=Lax$/,
  );
  expect(await login.json()).not.toHaveProperty("token");
  const who = await stage.ask("/api/session", { headers: { cookie: cookieOf(login) } });
  expect(await who.json()).toEqual({
    username: "admin",
    role: "admin",
    permissions: expect.arrayContaining(["session:view", "session:edit", "metrics:view"]),
    groups: null,
    via: "cookie",
    expiresAt: expect.stringMatching(/^\d{4}-.*Z$/),
  });
});

test("over HTTPS the cookie is bound to the host and encrypted", async () => {
  const https = { ...elsewhere(), "x-forwarded-proto": "https" };
  const login = await stage.login({}, https);
  expect(login.headers.getSetCookie()[0]).toMatch(/^__Host-ropeway_session=.*; Path=\/; .*Secure/);
  const headers = { ...https, cookie: cookieOf(login) };
  expect((await stage.ask("/api/session", { headers })).status).toBe(200);
});

test("a token instead of a cookie is for programs", async () => {
  const login = await stage.login({ as: "token" }, elsewhere());
  expect(login.headers.getSetCookie()).toEqual([]);
  const { token } = (await login.json()) as { token: string };
  const headers = { authorization: `Bearer ${token}` };
  const who = await stage.ask("/api/session", { headers });
  expect(await who.json()).toMatchObject({ username: "admin", via: "bearer" });
});

test("user name and password with each request work too, whatever the name's case", async () => {
  const headers = { ...basic("ADMIN", PASSWORD), ...elsewhere() };
  const answers = await Promise.all(
    [1, 2, 3, 4, 5, 6, 7, 8].map(() => stage.ask("/api/session", { headers })),
  );
  for (const who of answers) {
    expect(await who.json()).toMatchObject({ username: "admin", via: "basic", expiresAt: null });
  }
});

test("Redis never holds a token or a password", async () => {
  const { authorization } = await stage.bearer();
  const secrets = [authorization.replace("Bearer ", ""), PASSWORD];
  const keys = (await stage.server.command("KEYS", "*")) as string[];
  for (const key of keys) {
    const type = await stage.server.command("TYPE", key);
    const read: Record<string, string[]> = {
      string: ["GET", key],
      set: ["SMEMBERS", key],
      zset: ["ZRANGE", key, "0", "-1"],
      stream: ["XRANGE", key, "-", "+"],
      hash: ["HGETALL", key],
    };
    const value = await stage.server.command(...((read[String(type)] ?? []) as [string]));
    for (const secret of secrets) expect(JSON.stringify([key, value])).not.toContain(secret);
  }
});

test("signing out ends the session and takes the cookie back", async () => {
  const cookie = cookieOf(await stage.login({}, elsewhere()));
  const out = await stage.ask("/api/session", { method: "DELETE", headers: { cookie } });
  expect(out.status).toBe(204);
  expect(out.headers.getSetCookie()[0]).toMatch(
    /^ropeway_session=; Path=\/; Expires=Thu, 01 Jan 1970/,
  );
  const after = await stage.ask("/api/session", { headers: { cookie } });
  expect(await problemOf(after)).toMatchObject({ status: 401, code: "UNAUTHENTICATED" });
});

test.each([
  ["nothing", {}],
  ["an unknown token", { authorization: `Bearer rws_${"A".repeat(43)}` }],
  ["a token of another shape", { authorization: "Bearer x" }],
  ["an unknown scheme", { authorization: "Digest x" }],
  ["credentials without a colon", { authorization: "Basic YWRtaW4=" }],
  ["a cookie of ours that is over", { cookie: `ropeway_session=rws_${"A".repeat(43)}` }],
])("%s is answered with 401 and how to do better", async (_title, headers) => {
  const answer = await stage.ask("/api/session", { headers: { ...headers, ...elsewhere() } });
  expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="ropeway"');
  expect(await problemOf(answer)).toMatchObject({ status: 401, code: "UNAUTHENTICATED" });
});

test("a wrong Authorization header is not saved by a good cookie", async () => {
  const cookie = cookieOf(await stage.login({}, elsewhere()));
  const headers = { cookie, authorization: "Bearer x" };
  expect((await stage.ask("/api/session", { headers })).status).toBe(401);
});

test("a wrong password and an unknown user get the same answer", async () => {
  const answers = await Promise.all([
    stage.login({ password: "wrong password" }, elsewhere()),
    stage.login({ username: "nobody" }, elsewhere()),
    stage.login({ username: "no such name!" }, elsewhere()),
    stage.ask("/api/session", { headers: { ...basic("nobody", "x"), ...elsewhere() } }),
  ]);
  for (const answer of answers) {
    const problem = await problemOf(answer);
    expect(problem).toMatchObject({ status: 401, code: "LOGIN_FAILED" });
    expect(problem.detail).toBe("the user name or the password is wrong");
  }
});

test("another site's page can neither sign in nor write with our cookie", async () => {
  const cookie = cookieOf(await stage.login({}, elsewhere()));
  const evil = { origin: "http://evil.example", ...elsewhere() };
  const login = await stage.login({}, evil);
  const logout = await stage.ask("/api/session", {
    method: "DELETE",
    headers: { cookie, ...evil },
  });
  for (const answer of [login, logout]) {
    expect(await problemOf(answer)).toMatchObject({ status: 403, code: "CROSS_SITE" });
  }
  const own = { cookie, origin: stage.url };
  expect((await stage.ask("/api/session", { method: "DELETE", headers: own })).status).toBe(204);
});

test("a new password ends every other session at once, and the old password with them", async () => {
  await stage.addAccount("changer", "viewer");
  const mine = await stage.bearer("changer");
  const other = await stage.bearer("changer");
  const before = { ...basic("changer", PASSWORD), ...elsewhere() };
  expect((await stage.ask("/api/session", { headers: before })).status).toBe(200);
  const change = (current: string, next: string) =>
    stage.ask("/api/session/password", { method: "PUT", headers: mine, body: { current, next } });
  expect(await problemOf(await change("wrong password", "next password"))).toMatchObject({
    code: "LOGIN_FAILED",
  });
  expect(await problemOf(await change(PASSWORD, "short"))).toMatchObject({
    status: 400,
    errors: [{ pointer: "/body/next" }],
  });
  expect((await change(PASSWORD, "next password")).status).toBe(204);
  expect((await stage.ask("/api/session", { headers: mine })).status).toBe(200);
  expect((await stage.ask("/api/session", { headers: other })).status).toBe(401);
  expect((await stage.ask("/api/session", { headers: before })).status).toBe(401);
  expect((await stage.login({ username: "changer" }, elsewhere())).status).toBe(401);
  const next = { username: "changer", password: "next password" };
  expect((await stage.login(next, elsewhere())).status).toBe(201);
});

test("an account that is gone or has another role is noticed by the next request", async () => {
  await stage.addAccount("leaver", "viewer");
  const headers = await stage.bearer("leaver");
  await stage.users.setRole("leaver", "operator");
  const who = await stage.ask("/api/session", { headers });
  expect(await who.json()).toMatchObject({ role: "operator" });
  await stage.users.remove("leaver");
  expect((await stage.ask("/api/session", { headers })).status).toBe(401);
});

test("an account has a bounded number of sessions: the oldest end, those that are over take no room", async () => {
  await stage.addAccount("many", "viewer");
  const account = (await stage.users.get("many")) as Account;
  const store = new AccessStore(stage.redis, stage.keys);
  const life = { idleMs: 60_000, maxMs: 60_000 };
  const open = (name: string) => store.openSession(name, account, life);
  const lives = async (name: string) => (await store.session(name)) !== undefined;
  for (let i = 0; i < MAX_SESSIONS; i++) await open(`s${i}`);
  expect(await lives("s0")).toBe(true);
  await store.dropSession("s7");
  await open("in the place of s7");
  expect(await lives("s0")).toBe(true);
  await open("one more");
  expect([await lives("s0"), await lives("s1"), await lives("one more")]).toEqual([
    false,
    true,
    true,
  ]);
  const index = stage.keys.sessionsOf("many");
  expect(await stage.server.command("ZCARD", index)).toBe(MAX_SESSIONS);
  expect(await stage.server.command("PTTL", index)).toBeGreaterThan(0);
  // Sessions of others are not among them.
  expect((await stage.login({}, elsewhere())).status).toBe(201);
  expect(await stage.server.command("ZCARD", index)).toBe(MAX_SESSIONS);
});

test("an idle session ends, a used one lives on, but not beyond its end", async () => {
  await using short = await Stage.open({ sessionIdleMs: 60_000, sessionMaxMs: 3_600_000 });
  const headers = await short.bearer();
  const [key = ""] = (await short.server.command("KEYS", "*:session:*")) as string[];
  expect(await short.server.command("PTTL", key)).toBeLessThanOrEqual(60_000);
  await short.server.command("PEXPIRE", key, 20_000);
  expect((await short.ask("/api/session", { headers })).status).toBe(200);
  expect(await short.server.command("PTTL", key)).toBeGreaterThan(20_000);
  // Its end is near: being used no longer helps.
  const [seconds] = (await short.server.command("TIME")) as string[];
  await short.server.command("HSET", key, "expiresAt", `${Number(seconds) * 1_000 + 30_000}`);
  await short.ask("/api/session", { headers });
  expect(await short.server.command("PTTL", key)).toBeLessThanOrEqual(30_000);
  await short.server.command("PEXPIRE", key, 0);
  expect((await short.ask("/api/session", { headers })).status).toBe(401);
  await expectNoKeys(short.server, "ropeway:{portal}:session:");
});
