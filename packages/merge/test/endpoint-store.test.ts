// Limits, holds and breakers in Redis: slow rates, clocks that are set back, values of other programs.
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { Endpoints, Inspector } from "../src/index.ts";
import { EndpointStore } from "../src/store/endpoint-store.ts";
import { queuesForFile } from "./queues-for-file.ts";

const { server, redis, fresh } = await queuesForFile();

test("a dispatcher with a short lease does not forget the calls of one with a long lease", async () => {
  const queue = fresh();
  const url = "http://a.example/";
  await new Endpoints(queue).limit(url, { concurrency: 2 });
  const store = new EndpointStore(redis, queue.keys);
  await store.admit(url, { token: "long", forgetMs: 600_000 });
  await store.admit(url, { token: "short", forgetMs: 1_000 });
  expect(await server.command("PTTL", queue.keys.active(url))).toBeGreaterThan(1_000);
  // Both places are taken until they are released, also a moment later.
  const now = () => new Inspector(queue).now();
  const before = await now();
  await eventually(async () => expect(await now()).toBeGreaterThan(before + 2));
  const third = await store.admit(url, { token: "third", forgetMs: 1_000 });
  expect(third).toMatchObject({ verdict: "hold" });
});

test("batches that a limit keeps back come back one after the other, and not all at once", async () => {
  const queue = fresh();
  const url = "http://a.example/";
  const store = new EndpointStore(redis, queue.keys);
  const admit = (token: string) => store.admit(url, { token, forgetMs: 60_000 });
  const holds = async (count: number) => {
    const admissions = await Promise.all(Array.from({ length: count }, (_, i) => admit(`t${i}`)));
    return admissions.flatMap((each) => (each.verdict === "hold" ? [each.ms] : []));
  };
  await new Endpoints(queue).limit(url, { ratePerSecond: 2 });
  const byRate = await holds(300);
  // 0.4 s apart up to a minute, and the rest in a minute.
  expect(byRate.filter((ms) => ms <= 1_000).length).toBeLessThanOrEqual(3);
  expect(new Set(byRate).size).toBeGreaterThan(100);
  expect(Math.max(...byRate)).toBe(60_000);
  const hourAhead = String((await new Inspector(queue).now()) + 3_600_000);
  await server.command("HSET", queue.keys.endpoint(url), "booked", hourAhead);
  expect((await holds(1))[0]).toBeLessThan(1_000); // the clock was set back
  await new Endpoints(queue).limit(url, { concurrency: 1 });
  await server.command("HSET", queue.keys.endpoint(url), "booked", "0", "took", "4000");
  const byPlace = await holds(100);
  expect(byPlace.filter((ms) => ms <= 2_000).length).toBeLessThanOrEqual(3);
  expect(Math.max(...byPlace)).toBe(60_000);
});

test("batches behind a slow rate learn of a new limit within a minute", async () => {
  const queue = fresh();
  const url = "http://a.example/";
  const store = new EndpointStore(redis, queue.keys);
  const admit = () => store.admit(url, { token: "t", forgetMs: 60_000 });
  await new Endpoints(queue).limit(url, { ratePerSecond: 0.000_1 });
  expect(await admit()).toMatchObject({ verdict: "limited" });
  expect(await admit()).toMatchObject({ verdict: "hold", ms: 60_000 });
  await server.command("HSET", queue.keys.endpoint(url), "booked", "4000000000000");
  await new Endpoints(queue).limit(url, { ratePerSecond: 10 });
  expect(await server.command("HEXISTS", queue.keys.endpoint(url), "booked")).toBe(0);
});

test.each(["abc", "", "nan", "inf", "-inf", "1e300"])(
  "fields of an endpoint and its breaker that say %j count as empty",
  async (foreign) => {
    const queue = fresh();
    const store = new EndpointStore(redis, queue.keys);
    const breaker = { threshold: 5, openMs: 1_000, maxOpenMs: 1_000 };
    const fields = ["held", "tat", "booked", "took", "delivered", "rate", "concurrency"];
    for (const field of fields) {
      const url = `http://${field}.example/`;
      const limits = { ratePerSecond: 1, concurrency: 1 };
      await new Endpoints(queue).limit(url, limits);
      await server.command("HSET", queue.keys.endpoint(url), field, foreign);
      const admit = (token: string) => store.admit(url, { token, forgetMs: 1_000 });
      expect(await admit("a"), field).toMatchObject({ verdict: "limited" });
      const second = await admit("b");
      if (second.verdict === "hold") expect(second.ms, field).toBeLessThanOrEqual(60_000);
      const call = { url, outcome: "ok", calls: 1, status: "200", forgetMs: 1_000 } as const;
      await store.report({ ...call, token: "a", breaker });
      expect(await server.command("ZSCORE", queue.keys.active(url), "a"), field).toBeNull();
    }
    for (const field of ["until", "probe"]) {
      const origin = `http://${field}.example`;
      await server.command("HSET", queue.keys.breaker(origin), "until", "1");
      await server.command("HSET", queue.keys.breaker(origin), field, foreign);
      const admission = await store.admit(origin, { token: "t", forgetMs: 1_000 });
      expect(["go", "probe"], field).toContain(admission.verdict);
    }
  },
);

test("how long calls last is known from those that have ended", async () => {
  const queue = fresh();
  const url = "http://a.example/";
  await new Endpoints(queue).limit(url, { concurrency: 1 });
  const store = new EndpointStore(redis, queue.keys);
  await store.admit(url, { token: "t", forgetMs: 60_000 });
  const began = (await new Inspector(queue).now()) - 2_100;
  await server.command("ZADD", queue.keys.active(url), String(began + 60_000), "t");
  const breaker = { threshold: 5, openMs: 1_000, maxOpenMs: 1_000 };
  const call = { url, outcome: "ok", calls: 1, status: "200", forgetMs: 60_000, breaker } as const;
  await store.report({ ...call, token: "t" });
  const took = Number(await server.command("HGET", queue.keys.endpoint(url), "took"));
  expect(took >= 2_000 && took < 30_000).toBe(true);
});

test("a clock that is set back does not stop an endpoint with a rate", async () => {
  const queue = fresh();
  const url = "http://a.example/";
  await new Endpoints(queue).limit(url, { ratePerSecond: 10 });
  const hourAhead = String((await new Inspector(queue).now()) + 3_600_000);
  await server.command("HSET", queue.keys.endpoint(url), "tat", hourAhead);
  const store = new EndpointStore(redis, queue.keys);
  const admit = () => store.admit(url, { token: "t", forgetMs: 1_000 });
  expect(await admit()).toMatchObject({ verdict: "limited" });
});

test("a clock that is set back does not keep a breaker open, nor an endpoint waiting", async () => {
  const queue = fresh();
  const url = "http://a.example/";
  const store = new EndpointStore(redis, queue.keys);
  const breaker = { threshold: 1, openMs: 1_000, maxOpenMs: 1_000 };
  const call = { url, calls: 1, status: "503", forgetMs: 1_000, breaker } as const;
  const admit = () => store.admit(url, { token: "t", forgetMs: 1_000 });
  const ahead = async () => String((await new Inspector(queue).now()) + 3_600_000);
  const report = () => store.report({ ...call, outcome: "down", retryAfterMs: 5_000 });
  await report();
  expect(await admit()).toMatchObject({ verdict: "hold" });
  await server.command("HSET", queue.keys.endpoint(url), "held", await ahead());
  await server.command("HSET", queue.keys.breaker("http://a.example"), "until", await ahead());
  expect(await admit()).toMatchObject({ verdict: "probe" });
  await report(); // the probe failed
  const held = await admit();
  expect(held).toMatchObject({ verdict: "hold", reason: "the endpoint asked to wait" });
  expect(held.verdict === "hold" && held.ms).toBeLessThanOrEqual(5_000);
  const until = Number(
    await server.command("HGET", queue.keys.breaker("http://a.example"), "until"),
  );
  expect(until).toBeLessThan(Number(await ahead()) - 3_000_000);
});

const BREAKER = { threshold: 1, openMs: 60_000, maxOpenMs: 600_000 };
const DOWN = {
  outcome: "down",
  calls: 1,
  status: "503",
  forgetMs: 1_000,
  breaker: BREAKER,
} as const;

test("a call that never reported gives its place back when its time is over", async () => {
  const queue = fresh();
  const url = "http://a.example/";
  await new Endpoints(queue).limit(url, { concurrency: 1 });
  const store = new EndpointStore(redis, queue.keys);
  const admit = (token: string) => store.admit(url, { token, forgetMs: 600_000 });
  expect(await admit("lost")).toMatchObject({ verdict: "limited" });
  expect(await admit("early")).toMatchObject({ verdict: "hold" });
  const past = (await new Inspector(queue).now()) - 1_000;
  await server.command("ZADD", queue.keys.active(url), String(past), "lost");
  expect(await admit("next")).toMatchObject({ verdict: "limited" });
});

test("beyond a maximum, the endpoints unused for longest are forgotten, but no operator's settings", async () => {
  const queue = fresh();
  const store = new EndpointStore(redis, queue.keys);
  const [marked, oldest] = ["http://marked.example/", "http://oldest.example/"];
  await new Endpoints(queue).limit(marked, { concurrency: 1 });
  const others = Array.from({ length: 9_998 }, (_, i) => ["3", `http://x${i}.example/`]).flat();
  await server.command("ZADD", queue.keys.endpoints, "1", marked, "2", oldest, ...others);
  for (const url of ["http://new1.example/", "http://new2.example/"]) {
    await store.report({ ...DOWN, url });
  }
  expect(await server.command("ZCARD", queue.keys.endpoints)).toBe(10_000);
  expect(await server.command("ZSCORE", queue.keys.endpoints, oldest)).toBeNull();
  expect(await server.command("ZSCORE", queue.keys.endpoints, marked)).not.toBeNull();
});

test("failures of calls from before a breaker opened do not keep it open for longer", async () => {
  const queue = fresh();
  const url = "http://a.example/";
  const store = new EndpointStore(redis, queue.keys);
  const opened = () =>
    server.command("HMGET", queue.keys.breaker("http://a.example"), "until", "openMs", "opens");
  await store.report({ ...DOWN, url });
  const before = await opened();
  await store.report({ ...DOWN, url });
  expect(await opened()).toEqual(before);
});

test("a shorter Retry-After does not end a longer one", async () => {
  const queue = fresh();
  const url = "http://a.example/";
  const store = new EndpointStore(redis, queue.keys);
  for (const retryAfterMs of [600_000, 5_000]) {
    await store.report({ ...DOWN, outcome: "refused", url, retryAfterMs });
  }
  const held = await store.admit(url, { token: "t", forgetMs: 1_000 });
  expect(held.verdict === "hold" && held.ms).toBeGreaterThan(300_000);
});

test("the record of an endpoint expires again when an operator's settings are gone", async () => {
  const queue = fresh();
  const endpoints = new Endpoints(queue);
  const url = "http://a.example/";
  const store = new EndpointStore(redis, queue.keys);
  const ttl = () => server.command("PTTL", queue.keys.endpoint(url));
  await store.report({ ...DOWN, url });
  await endpoints.pause(url);
  expect(await ttl()).toBe(-1);
  await endpoints.enable(url);
  expect(await ttl()).toBeGreaterThan(0);
  await endpoints.limit(url, { concurrency: 1 });
  expect(await ttl()).toBe(-1);
  await endpoints.limit(url, {});
  expect(await ttl()).toBeGreaterThan(0);
});
