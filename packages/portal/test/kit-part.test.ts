import { Chat } from "@ropeway/kit/chat";
import { Files } from "@ropeway/kit/files";
import { Lock } from "@ropeway/kit/lock";
import { Semaphore } from "@ropeway/kit/semaphore";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, beforeAll, expect, test } from "vitest";
import { kitPart } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

const { redis } = await redisForFile();
let stage: Stage;
let admin: { authorization: string };

beforeAll(async () => {
  stage = await Stage.open({ parts: [kitPart(redis)] });
  admin = await stage.bearer();
});

afterAll(() => stage.close());

// biome-ignore lint/suspicious/noExplicitAny: responses are looked at, not typed
const ask = async (path: string, init: object = {}): Promise<any> =>
  (await stage.ask(path, { headers: admin, ...init })).json();

test("every route needs an account, and breaking a lock needs more than looking", async () => {
  const routes = stage.portal.routes.filter(({ url }) => url.startsWith("/api/kit"));
  expect(routes.length).toBeGreaterThanOrEqual(5);
  for (const { method, url } of routes) {
    expect((await stage.ask(url.replace(":name", "x"), { method })).status).toBe(401);
  }
  await stage.addAccount("vera", "viewer");
  const viewer = await stage.bearer("vera");
  expect((await stage.ask("/api/kit/locks", { headers: viewer })).status).toBe(200);
  const broken = await stage.ask("/api/kit/locks/x/break", { method: "POST", headers: viewer });
  expect(broken.status).toBe(403);
});

test("a lock is listed without its token, and broken", async () => {
  const held = await new Lock(redis, "market/1", { owner: "shop:7" }).acquire();
  const { items, cursor } = await ask("/api/kit/locks?search=market");
  expect(cursor).toBeNull();
  expect(items).toMatchObject([
    { name: "market/1", owner: "shop:7", mode: "write", fence: held.fence },
  ]);
  expect(JSON.stringify(items)).not.toContain(held.token);
  const path = `/api/kit/locks/${encodeURIComponent("market/1")}/break`;
  expect(await ask(path, { method: "POST" })).toEqual({ broken: true });
  expect(await ask(path, { method: "POST" })).toEqual({ broken: false });
  expect(await held.release()).toBe(false);
});

test("the token of a program that follows the documented lock is not shown", async () => {
  await redis.send(["SET", "lock:documented", "a-secret", "NX", "PX", "60000"]);
  const { items } = await ask("/api/kit/locks?search=documented");
  expect(items).toMatchObject([{ name: "documented", owner: "", mode: "foreign" }]);
  expect(JSON.stringify(items)).not.toContain("a-secret");
  await redis.send(["DEL", "lock:documented"]);
});

test("semaphores, rooms and transfers are listed", async () => {
  const permit = await new Semaphore(redis, "printers", { limit: 2 }).acquire();
  expect((await ask("/api/kit/semaphores")).items).toEqual([
    { name: "printers", limit: null, held: 1, waiting: 0 },
  ]);
  await permit.release();
  await new Chat(redis).create({ sender: "a", recipients: ["b"], message: 1, id: "lobby" });
  expect((await ask("/api/kit/rooms?search=lobby")).items).toEqual([
    { id: "lobby", members: 2, messages: 1, newest: 1 },
  ]);
  const controller = new AbortController();
  const content = async function* () {
    yield Buffer.from("x");
  };
  const publishing = new Files(redis, "logs:").publish(content(), {
    ...{ receivers: ["r"], name: "a.log", id: "t1", signal: controller.signal },
  });
  await eventually(async () => {
    const { items } = await ask("/api/kit/transfers");
    expect(items).toMatchObject([{ id: "t1", channel: "logs:", name: "a.log", sent: 1, size: 1 }]);
  });
  controller.abort();
  await expect(publishing).rejects.toMatchObject({ code: "ABORTED" });
  expect((await stage.ask("/api/kit/locks?cursor=x", { headers: admin })).status).toBe(400);
});
