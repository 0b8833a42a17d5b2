import { createHash } from "node:crypto";
import { openRedisStore } from "@ropeway/cluster";
import { OverloadedError } from "@ropeway/core";
import { deferred } from "@ropeway/core/internal";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { Authenticator, type LoginOutcome } from "../src/access/authenticator.ts";
import { newDevice } from "../src/access/device.ts";
import { PasswordHasher } from "../src/access/hasher.ts";
import { AccessStore } from "../src/access/store.ts";
import { Tokens } from "../src/access/tokens.ts";
import type { Account } from "../src/access/users.ts";
import { PortalKeys } from "../src/keys.ts";

// The real cost would only make the tests slow; portals use it in the other files.
const hasher = new PasswordHasher({ memoryCost: 1_024, timeCost: 1, parallelism: 1 });
const keys = new PortalKeys("ropeway");
const life = { idleMs: 60_000, maxMs: 600_000 };
const PASSWORD = "correct horse battery";

const { server, redis } = await redisForFile();
const store = new AccessStore(redis, keys);
let authenticator: Authenticator;
const outcomes: LoginOutcome[] = [];

beforeAll(async () => {
  await store.createFirstAdmin("admin", await hasher.hash(PASSWORD));
  authenticator = new Authenticator({
    store,
    tokens: new Tokens(openRedisStore(redis)),
    hasher,
    life,
    onLogin: (outcome) => void outcomes.push(outcome),
  });
});

const right = (place: string) =>
  authenticator.checkPassword({ username: "admin", password: PASSWORD, place });
const wrong = (place: string, username = "admin") =>
  authenticator.checkPassword({ username, password: "wrong", place });

test("after five wrong passwords none is looked at for a while, not even a right one", async () => {
  for (let i = 0; i < 5; i++)
    await expect(wrong("a")).rejects.toMatchObject({ code: "LOGIN_FAILED" });
  await expect(right("a")).rejects.toMatchObject({ code: "TOO_MANY_LOGINS" });
  // From elsewhere, or as someone else, nothing has changed.
  await right("b");
  await expect(wrong("a", "other")).rejects.toMatchObject({ code: "LOGIN_FAILED" });
});

test("each further wrong password doubles the wait, and a right one forgets them all", async () => {
  const generation = (await store.account("admin"))?.generation ?? 0;
  const key = keys.loginsOfUser("admin", generation, "c");
  const now = async () => {
    const [seconds, micros] = (await server.command("TIME")) as string[];
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  };
  const waits = [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900];
  for (const wait of waits) {
    const before = await now();
    await expect(wrong("c")).rejects.toMatchObject({ code: "LOGIN_FAILED" });
    const until = Number(await server.command("HGET", key, "until"));
    await server.command("HDEL", key, "until"); // instead of waiting
    if (wait === 0) {
      expect(until).toBe(0);
    } else {
      expect(until).toBeGreaterThanOrEqual(before + wait * 1_000);
      expect(until).toBeLessThanOrEqual((await now()) + wait * 1_000);
    }
  }
  await right("c");
  expect(await server.command("EXISTS", key)).toBe(0);
});

test("many tries at once get no further than many in a row", async () => {
  const tries = await Promise.allSettled(Array.from({ length: 20 }, () => wrong("d")));
  const codes = tries.map((one) => (one as PromiseRejectedResult).reason.code);
  expect(codes.filter((code) => code === "LOGIN_FAILED")).toHaveLength(5);
  expect(codes.filter((code) => code === "TOO_MANY_LOGINS")).toHaveLength(15);
});

test("one place cannot try many users", async () => {
  for (let i = 0; i < 50; i++) {
    await expect(wrong("e", `user${i}`)).rejects.toMatchObject({ code: "LOGIN_FAILED" });
  }
  await expect(wrong("e", "user51")).rejects.toMatchObject({ code: "TOO_MANY_LOGINS" });
});

test("one user cannot be tried from many places without slowing down, and never for long", async () => {
  await store.changePassword(await right("many"), await hasher.hash(PASSWORD)); // starts afresh
  const generation = (await store.account("admin"))?.generation ?? 0;
  for (let i = 0; i < 100; i++) await expect(wrong(`many${i}`)).rejects.toThrow("wrong");
  await expect(right("elsewhere")).rejects.toMatchObject({ code: "TOO_MANY_LOGINS" });
  const key = keys.loginsOfAccount("admin", generation);
  await server.command("HSET", key, "count", "500", "until", "0");
  await expect(wrong("many")).rejects.toMatchObject({ code: "LOGIN_FAILED" });
  const [seconds] = (await server.command("TIME")) as string[];
  const until = Number(await server.command("HGET", key, "until"));
  expect(until).toBeLessThanOrEqual((Number(seconds) + 61) * 1_000);
  // On a device that is known, the owner gets in all the same.
  const account = (await store.account("admin")) as Account;
  const credentials = { username: "admin", place: "elsewhere", device: newDevice(account) };
  await authenticator.checkPassword({ ...credentials, password: PASSWORD });
  // A device has a bound of its own, and one of another account or password is not known.
  const guess = () => authenticator.checkPassword({ ...credentials, password: "wrong" });
  for (let i = 0; i < 5; i++) await expect(guess()).rejects.toMatchObject({ code: "LOGIN_FAILED" });
  await expect(guess()).rejects.toMatchObject({ code: "TOO_MANY_LOGINS" });
  const stranger = newDevice({ ...account, passwordHash: "another" });
  await expect(
    authenticator.checkPassword({ ...credentials, device: stranger, password: PASSWORD }),
  ).rejects.toMatchObject({ code: "TOO_MANY_LOGINS" });
});

test("a new password clears the account's throttles", async () => {
  await store.changePassword(
    (await store.account("admin")) as Account,
    await hasher.hash(PASSWORD),
  );
  for (let i = 0; i < 5; i++) await expect(wrong("reset")).rejects.toThrow("wrong");
  await expect(right("reset")).rejects.toMatchObject({ code: "TOO_MANY_LOGINS" });
  await store.changePassword(
    (await store.account("admin")) as Account,
    await hasher.hash(PASSWORD),
  );
  await right("reset");
});

test("right passwords do not count against their place, and counts lapse after an hour", async () => {
  for (let i = 0; i < 60; i++) await right("f");
  expect(await server.command("EXISTS", keys.loginsFrom("f"))).toBe(0);
  await expect(wrong("f")).rejects.toThrow();
  const generation = (await store.account("admin"))?.generation ?? 0;
  for (const key of [keys.loginsFrom("f"), keys.loginsOfUser("admin", generation, "f")]) {
    expect(await server.command("PTTL", key)).toBeGreaterThan(3_500_000);
  }
});

test("a right password lifts the wait that its own try had begun for its whole place", async () => {
  await server.command("HSET", keys.loginsFrom("office"), "count", "60");
  await right("office");
  expect(await server.command("HGET", keys.loginsFrom("office"), "count")).toBe("60");
  await right("office");
});

test("a token that outlived its account is not one of a new account with that name", async () => {
  const account = (await store.account("admin")) as Account;
  const tokens = new Tokens(openRedisStore(redis));
  const limits = { name: "t", permissions: null, groups: null, expiresAt: null };
  const callerOf = async ({ token }: { token: string }) =>
    authenticator.identify(`Bearer ${token}`, undefined, "j");
  const former = { ...account, id: account.id - 1 };
  const left = await tokens.create({ ...limits, account: former });
  await expect(callerOf(left)).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
  const caller = await callerOf(await tokens.create({ ...limits, account }));
  expect(caller && (await authenticator.refreshed(caller))).toMatchObject({ via: "token" });
  const ofFormer = caller && { ...caller, account: former };
  expect(ofFormer && (await authenticator.refreshed(ofFormer))).toBeUndefined();
});

test("a login that the hasher had no room for counts as no failure, anywhere", async () => {
  const device = newDevice((await store.account("admin")) as Account);
  const busy = (known?: string) =>
    authenticator.checkPassword({
      username: "admin",
      password: PASSWORD,
      place: "busy",
      device: known,
    });
  await expect(wrong("busy")).rejects.toMatchObject({ code: "LOGIN_FAILED" });
  const counts = () => server.command("HGET", keys.loginsFrom("busy"), "count");
  expect(await counts()).toBe("1");
  // Two checks of seconds run, 32 wait behind them, and there is no room for more.
  const slow = (await new PasswordHasher().hash("x")).replace("t=3", "t=16");
  const quick = await hasher.hash("x");
  const hashing = Array.from({ length: 34 }, (_, i) => hasher.verify(i < 2 ? slow : quick, "x"));
  for (let i = 0; i < 5; i++) {
    await expect(busy()).rejects.toMatchObject({ code: "OVERLOADED" });
    await expect(busy(device)).rejects.toMatchObject({ code: "OVERLOADED" });
  }
  await Promise.all(hashing);
  expect(await counts()).toBe("1");
  await busy();
  await busy(device);
});

test("a login that was not checked takes back the wait that it had begun", async () => {
  class FullHasher extends PasswordHasher {
    override async verify(): Promise<boolean> {
      throw new OverloadedError("the portal", "too many logins at once");
    }
  }
  const tokens = new Tokens(openRedisStore(redis));
  const full = new Authenticator({ store, tokens, hasher: new FullHasher(), life, onLogin() {} });
  for (let i = 0; i < 4; i++) await expect(wrong("full")).rejects.toThrow("wrong");
  const credentials = { username: "admin", password: PASSWORD, place: "full" };
  for (let i = 0; i < 2; i++) {
    await expect(full.checkPassword(credentials)).rejects.toMatchObject({ code: "OVERLOADED" });
  }
  await right("full");
});

test("one user who signs in all the time does not take all places of the hasher", async () => {
  const opened = deferred<undefined>();
  let held = 0;
  class HeldHasher extends PasswordHasher {
    override async verify(hashed: string, password: string): Promise<boolean> {
      held += 1;
      await opened.promise;
      return hasher.verify(hashed, password);
    }
  }
  const tokens = new Tokens(openRedisStore(redis));
  const one = new Authenticator({ store, tokens, hasher: new HeldHasher(), life, onLogin() {} });
  const credentials = { username: "admin", password: PASSWORD, place: "crowded" };
  const generation = (await store.account("admin"))?.generation ?? 0;
  const tries = [];
  for (let i = 0; i < 20; i++) {
    // What a login that has passed does.
    await server.command("DEL", keys.loginsOfUser("admin", generation, "crowded"));
    tries.push(one.checkPassword(credentials).catch((error: { code: string }) => error.code));
  }
  await eventually(() => expect(held).toBe(5));
  const other = one.checkPassword({ ...credentials, place: "elsewhere" });
  await eventually(() => expect(held).toBe(6));
  opened.resolve(undefined);
  expect((await other).username).toBe("admin");
  const ended = await Promise.all(tries);
  expect(ended.filter((end) => end === "OVERLOADED")).toHaveLength(15);
  await one.checkPassword(credentials);
});

test("every try is told to whoever counts them", async () => {
  outcomes.length = 0;
  await right("g");
  await expect(wrong("g")).rejects.toThrow();
  await server.command("HSET", keys.loginsFrom("g"), "until", "9999999999999");
  await expect(right("g")).rejects.toThrow();
  expect(outcomes).toEqual(["passed", "failed", "throttled"]);
});

test("Basic credentials that were right are not hashed again, until the password changes", async () => {
  const authorization = `Basic ${Buffer.from(`admin:${PASSWORD}`).toString("base64")}`;
  outcomes.length = 0;
  await Promise.all(
    Array.from({ length: 30 }, () => authenticator.identify(authorization, undefined, "h")),
  );
  expect(outcomes).toEqual(["passed"]);
  const account = await right("i");
  await store.changePassword(account, await hasher.hash("another one"));
  await expect(authenticator.identify(authorization, undefined, "h")).rejects.toMatchObject({
    code: "LOGIN_FAILED",
  });
  const now = (await store.account("admin")) ?? account;
  await store.changePassword(now, await hasher.hash(PASSWORD));
});

test("a caller is not the same any more after a new password, a revoked token or a logout", async () => {
  const before = await right("l");
  const tokens = new Tokens(openRedisStore(redis));
  const limits = { name: "t", permissions: null, groups: null, expiresAt: null };
  const { info, token } = await tokens.create({ ...limits, account: before });
  const session = await authenticator.open(before);
  const basic = `Basic ${Buffer.from(`admin:${PASSWORD}`).toString("base64")}`;
  const callers = await Promise.all(
    [basic, `Bearer ${token}`, `Bearer ${session.token}`].map((authorization) =>
      authenticator.identify(authorization, undefined, "l"),
    ),
  );
  const live = async () => {
    const now = await Promise.all(callers.map((one) => one && authenticator.refreshed(one)));
    return now.map((one) => one?.via);
  };
  expect(await live()).toEqual(["basic", "token", "bearer"]);
  await tokens.revoke(info.id);
  expect(await live()).toEqual(["basic", undefined, "bearer"]);
  await store.dropSession(session.token);
  // A password change that was under way when its session ended does not bring the session back.
  await store.changePassword(before, await hasher.hash(PASSWORD), session.token);
  expect(await live()).toEqual([undefined, undefined, undefined]);
  expect(await store.session(session.token)).toBeUndefined();
});

test("the session that sets a new password goes on, also for a request in the middle of the change", async () => {
  const account = await right("m");
  const { token } = await authenticator.open(account);
  const hash = await hasher.hash(PASSWORD);
  const generation = await store.users.setPassword(account, hash, { ends: true });
  const caller = authenticator.identify(`Bearer ${token}`, undefined, "m");
  const digest = createHash("sha256").update(token).digest("hex");
  await server.command("HSET", keys.session(digest), "generation", String(generation));
  expect((await caller)?.account.generation).toBe(generation);
});

test("a password hashed at another cost is hashed anew when it is next used", async () => {
  const other = new PasswordHasher({ memoryCost: 2_048, timeCost: 1, parallelism: 1 });
  const before = await right("j");
  await store.rehashPassword(before, await other.hash(PASSWORD));
  const session = await authenticator.open(before);
  const after = await right("j");
  expect(after.passwordHash).toContain("m=1024,");
  expect(await store.account("admin")).toEqual(after);
  // The password is the same: nobody has to sign in again.
  const caller = await authenticator.identify(`Bearer ${session.token}`, undefined, "j");
  expect(caller?.account.username).toBe("admin");
});

test("of two who change a password at once, the second is told so", async () => {
  const account = await right("k");
  const { token, expiresAt } = await authenticator.open(account);
  const caller = { account, via: "bearer" as const, session: { token, expiresAt } };
  const change = () =>
    authenticator.changePassword(
      caller,
      { username: "admin", password: PASSWORD, place: "k" },
      PASSWORD,
    );
  const both = await Promise.allSettled([change(), change()]);
  expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  const failed = both.find(({ status }) => status === "rejected") as PromiseRejectedResult;
  expect(failed.reason).toMatchObject({ code: "PASSWORD_CONFLICT" });
});

test("whatever an Authorization header or cookie says, the answer is a typed refusal", async () => {
  const word = fc.oneof(
    fc.string({ unit: "binary", maxLength: 200 }),
    fc.base64String(),
    fc.constantFrom(`rws_${"A".repeat(43)}`, "", ":", Buffer.from(":").toString("base64")),
  );
  const scheme = fc.constantFrom("Bearer ", "Basic ", "bearer", "basic  ", "Negotiate ", "");
  const codes = ["UNAUTHENTICATED", "LOGIN_FAILED", "TOO_MANY_LOGINS"];
  const refusal = (identifying: Promise<unknown>) => identifying.catch((error) => error.code);
  await fc.assert(
    fc.asyncProperty(scheme, word, fc.nat(), async (prefix, text, place) => {
      const header = authenticator.identify(`${prefix}${text}`, undefined, `fuzz${place}`);
      expect(codes).toContain(await refusal(header));
      const cookie = authenticator.identify(undefined, text, "fuzz");
      expect(codes).toContain(await refusal(cookie));
    }),
    { numRuns: 150 },
  );
}, 120_000); // about 50 of them hash a password, which is slow on purpose
