import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { EndpointHealth } from "../src/delivery/endpoint-health.ts";
import { Endpoints, Inspector, MergeQueue } from "../src/index.ts";
import { EndpointStore } from "../src/store/endpoint-store.ts";

const URL_A = "http://a.test/one";
const SIBLING = "http://a.test/two";
const OTHER = "http://b.test/one";

const { server, redis } = await redisForFile();
const queue = new MergeQueue(redis, { prefix: "p" });
const endpoints = new Endpoints(queue);
const store = new EndpointStore(redis, queue.keys);

beforeEach(() => server.command("FLUSHALL"));

/** Every dispatcher has one; two of them share their knowledge through Redis. */
const errors: unknown[] = [];
const open = (openMs = 60_000, maxOpenMs = 600_000) =>
  new EndpointHealth(store, {
    breaker: { threshold: 3, openMs, maxOpenMs },
    forgetMs: 30_000,
    logger: redis.logger,
    error: (error) => errors.push(error),
  }).start();
const down = { outcome: "down", status: "503" } as const;
const breakerOf = async (url: string) => (await endpoints.get(url))?.breaker;
const openMs = async (url: string) => {
  const [seconds] = (await server.command("TIME")) as string[];
  const until = (await endpoints.get(url))?.openUntil ?? 0;
  return until - Number(seconds) * 1_000;
};

test("failures in a row open the breaker of the origin, for every dispatcher and URL of it", async () => {
  await using one = open();
  await using two = open();
  for (const health of [one, two, one]) {
    expect(await health.admit(URL_A)).toMatchObject({ verdict: "go" });
    await health.report(URL_A, down);
  }
  const held = { verdict: "hold", reason: "the circuit breaker is open" };
  expect(await two.admit(URL_A)).toMatchObject(held);
  expect(await two.admit(SIBLING)).toMatchObject(held);
  expect(await two.admit(OTHER)).toMatchObject({ verdict: "go" });
  const opened = async () => (await new Inspector(queue).stats()).openBreakers;
  expect(await opened()).toBe(1);
  await endpoints.enable(URL_A);
  expect(await opened()).toBe(0);
  for (const health of [one, two, one]) await health.report(SIBLING, down);
  expect(await opened()).toBe(1);
  await one.report(URL_A, { outcome: "ok", status: "200" });
  expect(await opened()).toBe(0);
});

test("a success or a refusal in between starts the count anew", async () => {
  await using health = open();
  for (const outcome of ["ok", "refused"] as const) {
    await health.report(URL_A, down);
    await health.report(URL_A, down);
    await health.report(URL_A, { outcome, status: "400" });
  }
  await health.report(URL_A, down);
  expect(await breakerOf(URL_A)).toBe("closed");
});

test("half open, one call is let through as a probe and the others wait for it", async () => {
  await using health = open(1);
  for (let i = 0; i < 3; i++) await health.report(URL_A, down);
  await eventually(async () => expect(await breakerOf(URL_A)).toBe("half-open"));
  const first = await eventually(async () => {
    const admission = await health.admit(URL_A);
    expect(admission.verdict).toBe("probe");
    return admission;
  });
  expect(first).toMatchObject({ verdict: "probe" });
  expect(await health.admit(SIBLING)).toMatchObject({
    verdict: "hold",
    reason: "the circuit breaker waits for a probe",
  });
  await health.report(URL_A, { outcome: "ok", status: "200" });
  expect(await health.admit(SIBLING)).toMatchObject({ verdict: "go" });
  expect(await breakerOf(URL_A)).toBe("closed");
});

test("each probe that fails keeps it open twice as long, up to the longest", async () => {
  await using health = open(60_000, 200_000);
  for (let i = 0; i < 3; i++) await health.report(URL_A, down);
  const breaker = queue.keys.breaker("http://a.test");
  for (const expected of [120_000, 200_000, 200_000]) {
    await server.command("HSET", breaker, "until", "1"); // its time is over
    expect(await health.admit(URL_A)).toMatchObject({ verdict: "probe" });
    await health.report(URL_A, down);
    expect(await openMs(URL_A)).toBeGreaterThan(expected - 5_000);
    expect(await openMs(URL_A)).toBeLessThanOrEqual(expected + 1_000);
  }
});

test("a probe that never reports is forgotten, so that another can be sent", async () => {
  await using health = open(1);
  for (let i = 0; i < 3; i++) await health.report(URL_A, down);
  await eventually(async () => expect((await health.admit(URL_A)).verdict).toBe("probe"));
  const breaker = queue.keys.breaker("http://a.test");
  await server.command("HSET", breaker, "probe", "1");
  expect(await health.admit(URL_A)).toMatchObject({ verdict: "probe" });
});

test("Retry-After and a 410 are for the endpoint, not for its origin, and enabling ends both", async () => {
  await using health = open();
  const asked = { outcome: "refused", status: "429", retryAfterMs: 50_000 } as const;
  await health.report(URL_A, asked);
  expect(await health.admit(URL_A)).toMatchObject({ verdict: "hold" });
  expect(await health.admit(SIBLING)).toMatchObject({ verdict: "go" });
  await health.report(SIBLING, { outcome: "refused", status: "410", disable: "gone" });
  expect(await health.admit(SIBLING)).toEqual({ verdict: "disabled", reason: "gone" });
  await endpoints.enable(URL_A);
  await endpoints.enable(SIBLING);
  expect(await health.admit(URL_A)).toMatchObject({ verdict: "go" });
  expect(await health.admit(SIBLING)).toMatchObject({ verdict: "go" });
});

test("successes are written together, and all of them by close", async () => {
  const health = open();
  for (let i = 0; i < 5; i++) {
    expect(await health.admit(URL_A)).toMatchObject({ verdict: "go" });
    await health.report(URL_A, { outcome: "ok", status: "204" });
  }
  await health.close();
  expect(await endpoints.get(URL_A)).toMatchObject({
    delivered: 5,
    failed: 0,
    status: "204",
  });
  expect(await server.command("PTTL", queue.keys.endpoint(URL_A))).toBeGreaterThan(600_000_000);
});

test("what is believed about an endpoint ends, so that an operator is heard, and counts once", async () => {
  await using health = open();
  expect(await health.admit(URL_A)).toMatchObject({ verdict: "go" });
  await health.report(URL_A, { outcome: "ok", status: "200" });
  const delivered = async () => (await endpoints.get(URL_A))?.delivered;
  await eventually(async () => expect(await delivered()).toBe(1)); // written, and asked again from now on
  await endpoints.pause(URL_A);
  expect(await health.admit(URL_A)).toMatchObject({ verdict: "hold" });
  await health.close();
  expect(await delivered()).toBe(1);
});

test("a foreign value in the place of a record is reported, and keeps no delivery back", async () => {
  const foreign = [queue.keys.endpoint(URL_A), queue.keys.breaker(new URL(OTHER).origin)];
  for (const key of foreign) await server.command("SET", key, "foreign");
  errors.length = 0;
  const health = open();
  for (const url of [URL_A, OTHER]) {
    expect(await health.admit(url)).toMatchObject({ verdict: "go" });
    await health.report(url, down);
  }
  expect(errors).toMatchObject(
    foreign.map((key) => ({ code: "WRONG_KEY_TYPE", details: { key } })),
  );
  // The record of the right type still decides and is still written.
  expect(await endpoints.get(OTHER)).toMatchObject({ url: OTHER, failed: 1, breaker: "closed" });
  expect(await server.command("HGET", queue.keys.endpoint(OTHER), "failed")).toBe("1");
  expect(await server.command("HGET", queue.keys.breaker(new URL(URL_A).origin), "failures")).toBe(
    "1",
  );
  await endpoints.pause(OTHER);
  expect(await health.admit(OTHER)).toMatchObject({ verdict: "hold" });
  await endpoints.limit(OTHER, { concurrency: 1 });
  await server.command("HDEL", queue.keys.endpoint(OTHER), "paused");
  errors.length = 0;
  await server.command("SET", queue.keys.active(OTHER), "foreign");
  expect(await health.admit(OTHER)).toMatchObject({ verdict: "go" });
  expect(errors).toMatchObject([{ details: { key: queue.keys.active(OTHER) } }]);
  await health.close();
  for (const key of foreign) expect(await server.command("GET", key)).toBe("foreign");
});

test("the calls of one endpoint are counted apart from the record of any other", async () => {
  await endpoints.limit(URL_A, { concurrency: 1 });
  const lookalike = `${URL_A}:active`;
  const health = open();
  expect(await health.admit(lookalike)).toMatchObject({ verdict: "go" });
  await health.report(lookalike, { outcome: "ok", status: "200" });
  await health.close();
  expect(await endpoints.get(lookalike)).toMatchObject({ delivered: 1 });
  errors.length = 0;
  await using next = open();
  expect(await next.admit(URL_A)).toMatchObject({ verdict: "limited" });
  expect(await next.admit(URL_A)).toMatchObject({ verdict: "hold" });
  expect(errors).toEqual([]);
});

test("a secret is rotated whatever another program wrote in its place", async () => {
  const kept = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
  const values = [
    [`[{"secret": "${kept}"}]`, 2],
    ["not json", 1],
    ['[null, 1, {"secret":"short"}, {"secret":5}]', 1],
  ] as const;
  for (const [stored, secrets] of values) {
    await server.command("HSET", queue.keys.endpoint(URL_A), "secrets", stored);
    await using health = open();
    expect(await health.admit(URL_A)).toMatchObject({ verdict: "go" });
    expect(await endpoints.rotateSecret(URL_A)).toMatch(/^whsec_/);
    expect(await endpoints.get(URL_A)).toMatchObject({ secrets });
  }
});
