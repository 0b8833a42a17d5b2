// Defects that attacks found, except hostile endpoints.
import { connect } from "@ropeway/core";
import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import {
  AddressGuard,
  Attempts,
  DeadLetters,
  Dispatcher,
  Endpoints,
  HttpDispatcher,
  Inspector,
  MergeQueue,
  Scheduler,
  Schedules,
} from "../src/index.ts";
import { at, HTTP, queuesForFile } from "./queues-for-file.ts";
import { Receiver } from "./receiver.ts";

const { server, fresh } = await queuesForFile();

test("a push that asks for more time than the lease still uses its attempts, and dies", async () => {
  const queue = fresh();
  await using receiver = await Receiver.start();
  receiver.answer = () => {}; // hangs
  const limits = { leaseMs: 1_200, timeoutMs: 100, attempts: 2 };
  await using _dispatcher = await new HttpDispatcher(queue, { ...HTTP, ...limits }).start();
  await queue.push(at("k", receiver.url()), "1", { request: { timeoutMs: 3_600_000 } });
  await eventually(
    async () => {
      const { items } = await new DeadLetters(queue).list();
      expect(items).toMatchObject([{ attempts: 2, reason: expect.stringContaining("2 attempts") }]);
    },
    { withinMs: 20_000 },
  );
  expect(receiver.requests).toHaveLength(2);
  await eventually(async () => {
    const logged = (await new Attempts(queue).list()).items.map(({ result }) => result);
    expect(logged).toEqual(["dead", "retry"]); // newest first
  });
});

test("a user of Redis who may not use channels pushes once, and is served", async () => {
  await using own = await startRedis();
  const rules = ["on", ">pw", "~*", "+@all", "resetchannels"];
  await own.command("ACL", "SETUSER", "quiet", ...rules);
  await using user = await connect(own.url.replace("redis://", "redis://quiet:pw@"));
  const queue = new MergeQueue(user, { prefix: "p" });
  const seen: string[] = [];
  await using _dispatcher = await new Dispatcher(queue, async ({ items }) => {
    seen.push(...items.map(({ body }) => String(body)));
  }).start();
  await using scheduler = new Scheduler(queue);
  scheduler.on("ran", (id) => seen.push(id));
  await scheduler.start();
  await queue.push("k", "1");
  await eventually(() => expect(seen).toEqual(["1"]));
  await new Schedules(queue, new AddressGuard()).set("now", {
    destination: { mergeKey: "k", url: "https://example.com/" },
    ...{ body: "2", everyMs: 3_600_000, immediately: true },
  });
  await eventually(() => expect([...seen].sort()).toEqual(["1", "2", "now"]));
  expect(await queue.schedule()).toEqual({ waitMs: undefined });
  expect(await queue.wait(20)).toBe("timeout");
  await queue.close();
});

test("a callback that could never be pushed is refused with its push", async () => {
  const queue = fresh();
  for (const url of ["https://user:pw@example.com/", "ftp://example.com", "example.com", 7]) {
    for (const name of ["callback", "failureCallback"]) {
      await expect(queue.push("k", "1", { request: { [name]: url } })).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
        argument: name,
      });
    }
  }
  expect(await server.command("KEYS", `${queue.keys.prefix}:*`)).toEqual([]);
});

test("secrets that are rotated at the same time all sign", async () => {
  const queue = fresh();
  const endpoints = new Endpoints(queue);
  const url = "https://example.com/";
  const secrets = await Promise.all([1, 2, 3].map(() => endpoints.rotateSecret(url)));
  const stored = String(await server.command("HGET", queue.keys.endpoint(url), "secrets"));
  for (const secret of secrets) expect(stored).toContain(secret);
  expect(await endpoints.get(url)).toMatchObject({ secrets: 3 });
});

test("a dead letter that cannot be indexed changes nothing", async () => {
  const queue = fresh();
  await queue.push("k", "1");
  await server.command("SET", queue.keys.deadOf("k"), "no sorted set");
  const dispatcher = new Dispatcher(queue, async () => ({ kind: "dead", reason: "lost" }));
  const errors: unknown[] = [];
  dispatcher.on("error", (error) => errors.push(error));
  await dispatcher.start();
  await eventually(async () => expect((await new Inspector(queue).stats()).broken).toBe(1));
  await dispatcher.close();
  expect(errors).toHaveLength(1);
  expect(await server.command("LRANGE", queue.keys.queue("k"), "0", "-1")).toEqual(["1"]);
  expect(await server.command("EXISTS", queue.keys.dead)).toBe(0);
});

test("a foreign value under a dead letter's name hides no letter and stops no retention", async () => {
  const queue = fresh();
  const letters = new DeadLetters(queue);
  await queue.push("k", "1");
  const dead = { kind: "dead", reason: "lost" } as const;
  const dispatcher = await new Dispatcher(queue, async () => dead).start();
  await eventually(async () => expect((await letters.list()).items).toHaveLength(1));
  await dispatcher.close();
  await server.command("ZADD", queue.keys.dead, "1", "odd");
  await server.command("SET", `${queue.keys.dead}:odd`, "no hash");
  expect((await letters.list()).items).toMatchObject([{ key: "k" }]);
  expect(await letters.replayAll()).toEqual({ letters: 1, items: 1 });
  await server.command("ZADD", queue.keys.dead, "1", "odd");
  expect(await letters.trim({ maxAgeMs: 0, maxCount: 0 })).toBe(1);
  expect(await server.command("EXISTS", queue.keys.dead)).toBe(0);
});

test("a probe gives its place at an endpoint with a concurrency limit back", async () => {
  const queue = fresh();
  await using receiver = await Receiver.start();
  let isDown = true;
  receiver.answer = (_, response) => response.writeHead(isDown ? 500 : 200).end();
  const url = receiver.url();
  await new Endpoints(queue).limit(url, { concurrency: 1 });
  const breaker = { threshold: 1, openMs: 50, maxOpenMs: 50 };
  await using _dispatcher = await new HttpDispatcher(queue, { ...HTTP, breaker }).start();
  await queue.push(at("k", url), "1");
  await eventually(() => expect(receiver.requests.length).toBeGreaterThan(1)); // at least a probe
  isDown = false;
  await eventually(async () => expect((await new Inspector(queue).stats()).keys).toBe(0));
  await eventually(async () => {
    expect(await server.command("ZCARD", queue.keys.active(url))).toBe(0);
  });
});

test("waits and closes that are longer than a timer can hold are long, not short", async () => {
  const queue = fresh();
  for (const wrong of [Number.NaN, -1]) {
    await expect(queue.wait(wrong)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  }
  await queue.schedule();
  const waiting = queue.wait(Number.POSITIVE_INFINITY);
  await queue.push("k", "1");
  expect(await waiting).toBe("push");
  let signalled = false;
  let finish = () => {};
  const handled = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const dispatcher = new Dispatcher(
    queue,
    (_batch, { signal }) => {
      signal.addEventListener("abort", () => {
        signalled = true;
      });
      return handled;
    },
    { closeWithinMs: 1e12 },
  );
  await dispatcher.start();
  await eventually(() => expect(dispatcher.active).toBe(1));
  const closed = dispatcher.close();
  await server.command("PING"); // a timer that overflowed would have fired by the next turn
  await new Promise((resolve) => setTimeout(resolve, 5));
  finish();
  await closed;
  expect(signalled).toBe(false);
  await queue.close();
});

test("a foreign value in place of the timer is reported once, and work goes on when it is gone", async () => {
  const queue = fresh();
  const { timer } = queue.keys;
  const inspector = new Inspector(queue);
  const got: string[] = [];
  await using dispatcher = new Dispatcher(queue, async ({ key }) => void got.push(key));
  const errors: unknown[] = [];
  dispatcher.on("error", (error) => errors.push(error));
  await inspector.check();
  await server.command("SET", timer, "of another program");
  await dispatcher.start();
  await eventually(() => expect(errors).toHaveLength(1));
  expect(errors[0]).toMatchObject({ code: "WRONG_KEY_TYPE", details: { key: timer } });
  const wrong = { code: "WRONG_KEY_TYPE", details: { key: timer } };
  await expect(inspector.check()).rejects.toMatchObject(wrong);
  await expect(queue.schedule()).rejects.toMatchObject(wrong);
  await expect(queue.push("k", "1")).rejects.toMatchObject({ code: "SERVER_REPLY" });
  for (let looks = 0; looks < 3; looks++) {
    // One more check, to see that it is not reported again.
    const before = await looked();
    await eventually(async () => expect(await looked()).toBeGreaterThan(before), {
      withinMs: 20_000,
    });
  }
  expect(errors).toHaveLength(1);
  await server.command("DEL", timer);
  await queue.push("k", "1");
  await eventually(() => expect(got).toEqual(["k"]), { withinMs: 20_000 });
  await inspector.check();
  await server.command("SET", timer, "again");
  await eventually(() => expect(errors).toHaveLength(2), { withinMs: 20_000 });
  await server.command("DEL", timer);
  await queue.close();
}, 60_000);

/** How many times clients asked sorted sets for due entries. */
async function looked(): Promise<number> {
  const stats = String(await server.command("INFO", "commandstats"));
  return Number(/cmdstat_zrangebyscore:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

test("a foreign value in place of the schedules is reported once, and runs go on when it is gone", async () => {
  const queue = fresh();
  const schedules = new Schedules(queue, new AddressGuard(["loopback"]));
  const scheduler = new Scheduler(queue);
  const errors: unknown[] = [];
  const ran: string[] = [];
  scheduler.on("error", (error) => errors.push(error)).on("ran", (id) => ran.push(id));
  await server.command("SET", queue.keys.schedules, "of another program");
  await scheduler.start();
  await eventually(() => expect(errors).toHaveLength(1));
  const wrong = { code: "WRONG_KEY_TYPE", details: { key: queue.keys.schedules } };
  expect(errors[0]).toMatchObject(wrong);
  await expect(new Inspector(queue).check()).rejects.toMatchObject(wrong);
  const before = await looked();
  await eventually(async () => expect(await looked()).toBeGreaterThan(before + 1), {
    withinMs: 20_000,
  });
  expect(errors).toHaveLength(1);
  await server.command("DEL", queue.keys.schedules);
  const destination = { mergeKey: "m", method: "POST", url: "https://example.com/" };
  await schedules.set("s", { destination, body: "1", everyMs: 3_600_000 });
  await server.command("ZADD", queue.keys.schedules, "1", "s");
  await eventually(() => expect(ran).toEqual(["s"]), { withinMs: 20_000 });
  await scheduler.close();
}, 60_000);

test.each(["ghost", "replayed"])(
  "a key with the mark %s whose next time is not a number is delivered",
  async (mark) => {
    const queue = fresh();
    const state = `${queue.keys.queue("k")}:state`;
    await queue.push("k", "1");
    expect(await server.command("EXISTS", state)).toBe(1);
    await server.command("HSET", state, "next", "soon", mark, "1");
    const seen: string[] = [];
    await using _dispatcher = await new Dispatcher(queue, async ({ items }) => {
      seen.push(...items.map(({ body }) => String(body)));
      if (seen.length > 1) return;
      await queue.push("k", "2");
      await server.command("HSET", state, "next", "soon"); // complete() meets it
    }).start();
    await eventually(() => expect(seen).toEqual(["1", "2"]));
  },
);

test("a page of large schedules is short, and the pages together have all of them", async () => {
  const schedules = new Schedules(fresh(), new AddressGuard());
  const destination = { mergeKey: "k", url: "https://example.com/" };
  const body = JSON.stringify("x".repeat(250_000));
  const ids = Array.from({ length: 10 }, (_, i) => `s${i}`);
  for (const id of ids) await schedules.set(id, { destination, body, everyMs: 3_600_000 });
  const listed: string[] = [];
  for (let cursor: string | undefined = "0"; cursor !== undefined; ) {
    const page = await schedules.list({ cursor, limit: 10 });
    expect(page.items).toHaveLength(Math.min(4, 10 - listed.length));
    listed.push(...page.items.map(({ id }) => id));
    cursor = page.cursor;
  }
  expect(listed.sort()).toEqual(ids);
});
