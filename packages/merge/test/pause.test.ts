import { connect } from "@ropeway/core";
import { deferred } from "@ropeway/core/internal";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import {
  Dispatcher,
  Endpoints,
  HttpDispatcher,
  Inspector,
  keyOf,
  MergeQueue,
} from "../src/index.ts";
import { at, queuesForFile } from "./queues-for-file.ts";
import { Receiver } from "./receiver.ts";

const { server, fresh: freshQueue } = await queuesForFile();

function fresh(): { queue: MergeQueue; inspector: Inspector } {
  const queue = freshQueue();
  return { queue, inspector: new Inspector(queue) };
}

async function dispatch(queue: MergeQueue, seen: string[]): Promise<Dispatcher> {
  const dispatcher = new Dispatcher(queue, async ({ key, items }) => {
    seen.push(`${key}:${items.map(({ body }) => String(body))}`);
  });
  return dispatcher.start();
}

test("a paused key is passed over, takes pushes, keeps its time, and fires when it is resumed", async () => {
  const { queue, inspector } = fresh();
  await inspector.pause("k");
  await queue.push("k", "1", { at: 5000 });
  await queue.push("k", "2", { at: 6000, update: "always" });
  await queue.push("free", "3");
  const seen: string[] = [];
  await using _dispatcher = await dispatch(queue, seen);
  await eventually(() => expect(seen).toEqual(["free:3"]));
  expect(await inspector.peek("k")).toMatchObject({ paused: true, items: 2, at: 6000 });
  expect(await inspector.sendNow("k")).toBe(2);
  expect(await queue.schedule()).toEqual({ waitMs: undefined });
  expect(await inspector.stats()).toMatchObject({ paused: false, pausedKeys: 1, keys: 1 });
  expect((await inspector.list()).items).toMatchObject([{ key: "k", paused: true }]);
  expect(await inspector.resume("k")).toBe(true);
  expect(await inspector.resume("k")).toBe(false);
  await eventually(() => expect(seen).toEqual(["free:3", "k:1,2"]));
  expect((await inspector.stats()).pausedKeys).toBe(0);
  await queue.close();
});

test("however many paused keys are due first, the others fire", async () => {
  const { queue, inspector } = fresh();
  for (let i = 0; i < 200; i++) {
    await queue.push(`early${i}`, "x", { at: (1 + i) * 1_000 });
    await inspector.pause(`early${i}`);
  }
  for (let i = 0; i < 100; i++) await queue.push(`late${i}`, "y", { at: (1_000 + i) * 1_000 });
  const seen: string[] = [];
  await using _dispatcher = await dispatch(queue, seen);
  await eventually(() => expect(seen).toHaveLength(100));
  expect(seen.every((each) => each.startsWith("late"))).toBe(true);
});

test("a pause outlives the last item of its key, but not a single item that is deleted", async () => {
  const { queue, inspector } = fresh();
  const single = keyOf({ mergeKey: "-s", method: "POST", url: "http://a.test/" }, "id1");
  for (const key of ["k", single]) {
    await queue.push(key, "1", { at: 4000000000000 });
    await inspector.pause(key);
    expect(await inspector.remove(key)).toEqual({ deleted: 1, sending: 0 });
  }
  expect((await inspector.peek("k")).paused).toBe(true);
  expect((await inspector.peek(single)).paused).toBe(false);
});

test("only so many keys can be paused, and the refusal says so", async () => {
  const { queue, inspector } = fresh();
  const many = Array.from({ length: 1_000 }, (_, i) => `k${i}`);
  await server.command("SADD", queue.keys.pausedKeys, ...many);
  await expect(inspector.pause("one more")).rejects.toMatchObject({
    code: "TOO_MANY_PAUSED",
    details: { key: "one more", most: 1_000 },
  });
  await inspector.pause("k7"); // is already paused
  await expect(inspector.pause("k:data")).rejects.toMatchObject({ code: "INVALID_NAME" });
});

test("what is due for a paused endpoint waits without attempts, the rest of its origin goes on", async () => {
  const { queue, inspector } = fresh();
  const endpoints = new Endpoints(queue);
  await using receiver = await Receiver.start();
  const key = (mergeKey: string, path: string) => at(mergeKey, receiver.url(path));
  await endpoints.pause(receiver.url("/mended"));
  await queue.push(key("a", "/mended"), "1");
  await queue.push(key("a", "/fine"), "2");
  await using _dispatcher = await new HttpDispatcher(queue, { allow: ["loopback"] }).start();
  await eventually(async () => {
    expect(receiver.requests.map(({ path }) => path)).toEqual(["/fine"]);
    expect(await inspector.peek(key("a", "/mended"))).toMatchObject({
      state: "retrying",
      attempts: 0,
      error: "the endpoint is paused",
    });
  });
  const paused = (await endpoints.list()).items.filter((each) => each.paused);
  expect(paused.map(({ url }) => url)).toEqual([receiver.url("/mended")]);
  await endpoints.enable(receiver.url("/mended"));
  await inspector.sendNow(key("a", "/mended"));
  await eventually(() => expect(receiver.bodies()).toEqual([[2], [1]]));
});

test("a foreign value in the place of the paused keys is reported once, and stops nothing", async () => {
  const { queue } = fresh();
  await server.command("SET", queue.keys.pausedKeys, "foreign");
  const seen: string[] = [];
  const errors: unknown[] = [];
  const dispatcher = new Dispatcher(queue, async ({ key }) => {
    seen.push(key);
  });
  dispatcher.on("error", (error) => errors.push(error));
  await dispatcher.start();
  await queue.push("a", "1");
  await queue.push("b", "2");
  await eventually(() => expect(seen.toSorted()).toEqual(["a", "b"]));
  await dispatcher.close();
  const details = { key: queue.keys.pausedKeys };
  expect(errors).toMatchObject([{ code: "WRONG_KEY_TYPE", details }]);
  expect(await server.command("GET", queue.keys.pausedKeys)).toBe("foreign");
});

test.each(["the dispatcher", "everything", "each key"])(
  "what is queued for a busy origin waits too when %s is paused, and goes out afterwards",
  async (what) => {
    const { queue, inspector } = fresh();
    await using receiver = await Receiver.start();
    const held: (() => void)[] = [];
    receiver.answer = (_, response) => held.push(() => response.end());
    const options = { allow: ["loopback"], perOrigin: 1, reserveMs: 60_000 };
    const dispatcher = await new HttpDispatcher(queue, options).start();
    const keys = ["a", "b", "c"].map((mergeKey) => at(mergeKey, receiver.url()));
    for (const key of keys) await queue.push(key, "1", { at: 1_000 });
    // One is at the endpoint, the others have been reserved and are queued.
    await eventually(async () => expect((await inspector.stats()).due).toBe(0));
    await eventually(() => expect(held).toHaveLength(1));
    if (what === "the dispatcher") await dispatcher.pause();
    else if (what === "everything") await inspector.pause();
    else for (const key of keys) await inspector.pause(key);
    held[0]?.();
    await eventually(async () => expect((await inspector.stats()).keys).toBe(2));
    if (what === "the dispatcher") {
      await eventually(() => expect(dispatcher.active).toBe(0));
    } else {
      // They are due at their former time, so that they fire at once when they are resumed.
      await eventually(async () => expect((await inspector.stats()).due).toBe(2));
    }
    expect(receiver.requests).toHaveLength(1);
    receiver.answer = (_, response) => response.end();
    if (what === "everything") await inspector.resume();
    else for (const key of keys) await inspector.resume(key);
    if (what !== "the dispatcher")
      await eventually(() => expect(receiver.requests).toHaveLength(3));
    await dispatcher.close();
  },
);

test("a user of Redis who may not use channels can end a pause", async () => {
  const { queue, inspector } = fresh();
  const rights = ["on", ">pw", "~*", "+@all", "resetchannels"];
  await server.command("ACL", "SETUSER", "quiet", ...rights);
  const url = new URL(server.url);
  Object.assign(url, { username: "quiet", password: "pw" });
  await using quiet = await connect(url.href);
  const theirs = new Inspector(new MergeQueue(quiet, { prefix: queue.options.prefix }));
  await theirs.pause();
  await theirs.pause("k");
  expect(await theirs.resume()).toBe(true);
  expect(await theirs.resume("k")).toBe(true);
  expect(await inspector.stats()).toMatchObject({ paused: false, pausedKeys: 0 });
});

test("what is queued for a busy origin is left to others when the dispatcher closes", async () => {
  const { queue, inspector } = fresh();
  const opened = deferred<void>();
  const seen: string[] = [];
  const handler = async ({ key }: { key: string }) => {
    seen.push(key);
    await opened.promise;
  };
  const options = { perOrigin: 1, reserveMs: 60_000 };
  const dispatcher = await new Dispatcher(queue, handler, options).start();
  for (const mergeKey of ["a", "b", "c"]) {
    await queue.push(at(mergeKey, "http://a.example/"), "1", { at: 1_000 });
  }
  // One is in the handler, the others have been reserved and are queued.
  await eventually(async () => expect((await inspector.stats()).due).toBe(0));
  await eventually(() => expect(seen).toHaveLength(1));
  const closed = dispatcher.close();
  opened.resolve();
  await closed;
  expect((await inspector.list()).items.map(({ state }) => state)).toEqual(["waiting", "waiting"]);
  expect(seen).toHaveLength(1);
});
