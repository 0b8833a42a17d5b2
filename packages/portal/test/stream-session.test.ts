// Streams belong to an account and end with the session that opened them.
import { once } from "node:events";
import { openRedisStore } from "@ropeway/cluster";
import { keys } from "@ropeway/cluster/internal";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Roles } from "../src/access/roles.ts";
import { Tokens } from "../src/access/tokens.ts";
import { needs, type PortalPart, serveEvents } from "../src/index.ts";
import { PASSWORD, problemOf, Stage } from "./stage.fixture.ts";

const part: PortalPart = {
  name: "events",
  about: { en: "", zh: "" },
  permissions: { "events:view": { least: "viewer", means: "See events." } },
  routes(app) {
    app.get("/events", { config: needs("events:view") }, (_request, reply) =>
      serveEvents(reply, (stream) => once(stream.signal, "abort").then(() => undefined), {
        heartbeatMs: 20,
      }),
    );
    app.get("/calm", { config: needs("events:view") }, (_request, reply) =>
      serveEvents(reply, (stream) => once(stream.signal, "abort").then(() => undefined), {
        heartbeatMs: 3_600_000,
      }),
    );
    app.get("/busy", { config: needs("events:view") }, (_request, reply) =>
      serveEvents(
        reply,
        async (stream) => {
          // Far more often than a heartbeat.
          for (;;) {
            await stream.send({ data: "news" });
            await new Promise((resolve) => setImmediate(resolve));
          }
        },
        { heartbeatMs: 1_000 },
      ),
    );
  },
};

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.open({ parts: [part], maxStreamsPerAccount: 2 });
  await stage.addAccount("vera", "viewer");
});
afterAll(() => stage.close());

type Headers = { authorization: string };

/** Opens a stream; resolves with a promise that resolves when the server has ended it. */
async function open(
  headers: Headers,
  path = "/events",
): Promise<{ ended: Promise<unknown>; leave(): void }> {
  const leaving = new AbortController();
  const answer = await fetch(`${stage.url}${path}`, { headers, signal: leaving.signal });
  expect(answer.status).toBe(200);
  return { ended: answer.text().catch(() => "left"), leave: () => leaving.abort() };
}

test("signing out ends the session's streams, and no others", async () => {
  const [first, second] = [await stage.bearer(), await stage.bearer()];
  const [mine, other] = [await open(first), await open(second)];
  await stage.ask("/api/session", { method: "DELETE", headers: first });
  await mine.ended;
  const still = await Promise.race([other.ended.then(() => "ended"), eventually(() => "open")]);
  expect(still).toBe("open");
  other.leave();
});

test("this portal ends the streams of a session at once, without a heartbeat", async () => {
  await stage.addAccount("carl", "viewer");
  const [own, other] = [await stage.bearer("carl"), await stage.bearer("carl")];
  const [mine, theirs] = [await open(own, "/calm"), await open(other, "/calm")];
  const change = { current: PASSWORD, next: "another horse battery" };
  await stage.ask("/api/session/password", { method: "PUT", headers: own, body: change });
  await theirs.ended;
  await stage.ask("/api/session", { method: "DELETE", headers: own });
  await mine.ended;
});

test("a session that another portal ended stops streaming within a heartbeat", async () => {
  const headers = await stage.bearer();
  const { ended } = await open(headers);
  const sessions = (await stage.server.command("KEYS", "*:session:*")) as string[];
  await stage.server.command("DEL", ...sessions);
  await ended;
});

test("a stream ends when its account loses the permission, or is removed and made again", async () => {
  await stage.addAccount("mover", "viewer");
  const { ended } = await open(await stage.bearer("mover"));
  const roles = new Roles(openRedisStore(stage.redis));
  await roles.create({ name: "other", permissions: ["audit:view"], groups: null });
  await stage.users.setRole("mover", "other");
  await ended;
  await stage.users.setRole("mover", "viewer");
  const again = await open(await stage.bearer("mover"));
  await stage.users.remove("mover");
  await stage.addAccount("mover", "viewer");
  await again.ended;
});

test("a stream ends when its API token is revoked, or has expired", async () => {
  await stage.addAccount("robot", "viewer");
  const account = await stage.users.get("robot");
  if (account === undefined) throw new Error("no account");
  const store = openRedisStore(stage.redis);
  const tokens = new Tokens(store);
  const limits = { name: "t", account, permissions: null, groups: null, expiresAt: null };
  const [revoked, expired] = [await tokens.create(limits), await tokens.create(limits)];
  const streams = [];
  for (const { token } of [revoked, expired]) {
    streams.push(await open({ authorization: `Bearer ${token}` }));
  }
  await tokens.revoke(revoked.info.id);
  await streams[0]?.ended;
  const key = keys.token(expired.info.id);
  const stored = JSON.parse((await store.get(key))?.value ?? "{}") as object;
  await store.put(key, JSON.stringify({ ...stored, expiresAt: 1 }));
  await streams[1]?.ended;
});

test("a stream ends when its account may see other groups than before", async () => {
  const roles = new Roles(openRedisStore(stage.redis));
  for (const group of ["a", "b"]) {
    await roles.create({ name: `of-${group}`, permissions: ["events:view"], groups: [group] });
  }
  await stage.addAccount("grouped", "of-a");
  const { ended } = await open(await stage.bearer("grouped"));
  await stage.users.setRole("grouped", "of-b");
  await ended;
});

test("a stream with many events ends too when its account is removed", async () => {
  await stage.addAccount("reader", "viewer");
  const { ended } = await open(await stage.bearer("reader"), "/busy");
  await stage.users.remove("reader");
  await ended;
});

test("a new password ends the streams of all other sessions", async () => {
  const [own, other] = [await stage.bearer("vera"), await stage.bearer("vera")];
  const [kept, ended] = [await open(own), await open(other)];
  const change = { current: PASSWORD, next: "another horse battery" };
  await stage.ask("/api/session/password", { method: "PUT", headers: own, body: change });
  await ended.ended;
  const still = await Promise.race([kept.ended.then(() => "ended"), eventually(() => "open")]);
  expect(still).toBe("open");
  kept.leave();
});

test("an account has a bound of its own", async () => {
  const admin = await stage.bearer();
  const open1 = await open(admin);
  const open2 = await open(admin);
  const refused = await stage.ask("/events", { headers: admin });
  expect(await problemOf(refused)).toMatchObject({ status: 429, code: "TOO_MANY_STREAMS" });
  open1.leave();
  await eventually(async () => {
    const again = await open(admin);
    again.leave();
  });
  open2.leave();
});
