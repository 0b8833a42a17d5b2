import { Queue, Worker } from "@ropeway/jobs";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, beforeAll, expect, test } from "vitest";
import { jobsPart } from "../src/index.ts";
import { problemOf, Stage } from "./stage.fixture.ts";

const { server, redis } = await redisForFile();
let stage: Stage;
let admin: { authorization: string };
const NAME = "mail: {urgent}/1";
const BASE = `/api/jobs/queues/${encodeURIComponent(NAME)}`;

beforeAll(async () => {
  stage = await Stage.open({ parts: [jobsPart(redis)] });
  admin = await stage.bearer();
});

afterAll(() => stage.close());

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at, not typed
const ask = async (path: string, init: object = {}): Promise<any> => {
  const answer = await stage.ask(path, { headers: admin, ...init });
  return answer.status === 204 ? undefined : answer.json();
};

test("every route needs an account, and changing needs more than looking", async () => {
  const routes = stage.portal.routes.filter(({ url }) => url.startsWith("/api/jobs"));
  expect(routes.length).toBeGreaterThanOrEqual(14);
  for (const { method, url } of routes) {
    const path = url.replace(":queue", "q").replace(":id", "x");
    expect((await stage.ask(path, { method })).status).toBe(401);
  }
  await stage.addAccount("vera", "viewer");
  const viewer = await stage.bearer("vera");
  expect((await stage.ask("/api/jobs/queues", { headers: viewer })).status).toBe(200);
  const pause = await stage.ask(`${BASE}/pause`, { method: "POST", headers: viewer });
  expect(pause.status).toBe(403);
});

test("a job is added, found, promoted, failed, retried and removed", async () => {
  const body = { name: "send", data: { to: "ann" }, options: { delayMs: 60_000, id: "a/b" } };
  expect(await ask(`${BASE}/jobs`, { method: "POST", body })).toEqual({
    id: "a/b",
    deduplicated: null,
  });
  expect(await ask("/api/jobs/queues")).toMatchObject([{ name: NAME, counts: { delayed: 1 } }]);
  const found = await ask(`${BASE}/jobs?text=ann&state=delayed`);
  expect(found).toMatchObject({ items: [{ id: "a/b", data: { to: "ann" } }], cursor: null });
  const job = `${BASE}/jobs/${encodeURIComponent("a/b")}`;
  expect(await ask(`${job}/promote`, { method: "POST" })).toBeUndefined();
  let broken = true;
  const worker = new Worker(redis, NAME, () => {
    if (broken) throw new Error("no luck");
  });
  await eventually(async () => expect(await ask(job)).toMatchObject({ state: "failed" }));
  expect(await ask(job)).toMatchObject({
    failure: { message: "no luck" },
    addedAt: expect.stringMatching(/^20\d\d-.*Z$/),
    endedAt: expect.stringMatching(/^20\d\d-.*Z$/),
  });
  expect(await ask(`${job}/promote`, { method: "POST" })).toMatchObject({
    code: "JOB_STATE",
    status: 409,
  });
  broken = false;
  expect(await ask(`${BASE}/retry-failed`, { method: "POST" })).toEqual({ jobs: 1 });
  await eventually(async () => expect(await ask(job)).toMatchObject({ code: "JOB_NOT_FOUND" }));
  expect(await ask(BASE)).toMatchObject({ workers: [{ id: worker.id }], totals: { failed: 1 } });
  await worker.close();
});

test("a queue is paused, limited, drained, watched and counted", async () => {
  await ask(`${BASE}/pause`, { method: "POST" });
  const limits = { rate: { max: 5, perMs: 1_000 } };
  expect(await ask(`${BASE}/limits`, { method: "PUT", body: limits })).toEqual(limits);
  expect(await ask(BASE)).toMatchObject({ paused: true, limits });
  await ask(`${BASE}/resume`, { method: "POST" });
  const stream = await stage.ask(`${BASE}/events`, { headers: admin });
  const reader = stream.body?.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  const queue = new Queue(redis, NAME);
  let text = "";
  const reading = (async () => {
    while (!text.includes("event: added"))
      text += new TextDecoder().decode((await reader.read()).value);
  })();
  await eventually(async () => {
    await queue.add("watched");
    if (!text.includes("event: added")) throw new Error("not yet");
  });
  await reading;
  await reader.cancel();
  const metrics = await (await stage.ask("/metrics", { headers: admin })).text();
  expect(metrics).toContain(`ropeway_jobs{queue="${NAME}",state="waiting"}`);
  expect((await ask(`${BASE}/drain`, { method: "POST", body: {} })).jobs).toBeGreaterThan(0);
  expect(await ask(`${BASE}/jobs/nobody/cancel`, { method: "POST" })).toMatchObject({
    code: "JOB_NOT_FOUND",
  });
  await queue.close();
});

test("a queue that does not exist is a 404 for every route but adding, and asking creates nothing", async () => {
  const headers = admin;
  const before = await server.command("DBSIZE");
  for (const [method, path] of [
    ["GET", ""],
    ["GET", "/jobs"],
    ["GET", "/jobs/1"],
    ["GET", "/events"],
    ["POST", "/pause"],
    ["POST", "/resume"],
    ["POST", "/retry-failed"],
    ["DELETE", "/jobs/1"],
  ] as const) {
    const answer = await stage.ask(`/api/jobs/queues/typo${path}`, { method, headers });
    expect(await problemOf(answer)).toMatchObject({
      status: 404,
      code: "NOT_FOUND",
      detail: 'queue "typo" not found',
    });
  }
  expect(await server.command("DBSIZE")).toBe(before);
});

test("a job is changed, a schedule written, a key freed, rates shown, and the queue deleted", async () => {
  const base = "/api/jobs/queues/managed";
  const queue = new Queue(redis, "managed");
  await queue.add("n", 1, { id: "a", dedupe: "k", delayMs: 60_000 });
  const changes = { method: "PATCH", body: { data: 2, priority: 3, delayMs: 0 } };
  expect(await ask(`${base}/jobs/a`, changes)).toBeUndefined();
  expect(await ask(`${base}/jobs/a`)).toMatchObject({ data: 2, priority: 3 });
  expect(await ask(`${base}/dedupe/k`, { method: "DELETE" })).toEqual({ freed: true });
  const startAt = "2040-01-02T03:04:05.000Z";
  const schedule = { method: "PUT", body: { name: "report", cron: "@daily", limit: 2, startAt } };
  expect(await ask(`${base}/schedules/nightly`, schedule)).toBeUndefined();
  expect(await ask(base)).toMatchObject({
    schedules: [{ id: "nightly", limit: 2, runs: 0, startAt }],
  });
  const typo = { method: "PUT", body: { name: "report", cron: "61 * * * *" } };
  expect(await ask(`${base}/schedules/nightly`, typo)).toMatchObject({ code: "INVALID_OPTION" });
  // Deeper than Redis's scripts can read; brackets in strings are no levels.
  const nested = (levels: number) => JSON.parse("[".repeat(levels) + "]".repeat(levels));
  const deep = { name: "report", cron: "@daily", limit: 2, data: nested(1_000) };
  expect(await ask(`${base}/schedules/nightly`, { method: "PUT", body: deep })).toMatchObject({
    code: "INVALID_ARGUMENT",
    status: 400,
  });
  const flat = { ...deep, data: [nested(400), '"['.repeat(1_000)] };
  expect(await ask(`${base}/schedules/nightly`, { method: "PUT", body: flat })).toBeUndefined();
  const removed = await ask(`${base}/schedules/nightly`, { method: "DELETE" });
  expect(removed).toEqual({ removed: true });
  expect(await ask(`${base}/rates?minutes=5`)).toEqual([]);
  expect(await ask(`${base}/obliterate`, { method: "POST", body: {} })).toEqual({ jobs: 1 });
  expect(await queue.exists()).toBe(false);
  await queue.close();
});

test("a misspelt or unknown field is refused, and nothing is done", async () => {
  const queue = new Queue(redis, "strict");
  const base = "/api/jobs/queues/strict";
  const schedule = { name: "n", everyMs: 60_000 };
  await queue.add("n", 1, { id: "a", delayMs: 60_000 });
  const wrong: [string, string, object][] = [
    ["POST", "drain", { states: ["delayed"], olderThan: 86_400_000 }],
    ["POST", "drain", { state: ["failed"] }],
    ["POST", "obliterate", { froce: true }],
    ["POST", "retry-failed", { group: "acme" }],
    ["PUT", "limits", { concurency: 1 }],
    ["PUT", "limits", { rate: { max: 1, perMs: 1_000, burst: 5 } }],
    ["POST", "jobs", { name: "n", dta: 1 }],
    ["POST", "jobs", { name: "n", options: { dedupe: "k" } }],
    ["PATCH", "jobs/a", { prioriy: 1 }],
    ["POST", "jobs/a/cancel", { raeson: "typo" }],
    ["PUT", "schedules/s", { ...schedule, endsAt: "2040-01-02T03:04:05Z" }],
  ];
  for (const [method, path, body] of wrong) {
    const reply = await ask(`${base}/${path}`, { method, body });
    expect(reply, JSON.stringify(body)).toMatchObject({ status: 400 });
  }
  expect(await ask(base)).toMatchObject({ counts: { delayed: 1 }, limits: {}, schedules: [] });
  await queue.obliterate();
  await queue.close();
});

test("gauges show the numbers of now, not of the scrape before", async () => {
  const queue = new Queue(redis, "gauged");
  await queue.addBulk([{ name: "n" }, { name: "n" }]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const scrape = async () => (await stage.ask("/metrics", { headers: admin })).text();
  const metrics = await scrape();
  expect(metrics).toContain('ropeway_jobs{queue="gauged",state="waiting"} 2');
  expect(metrics).toMatch(/ropeway_jobs_oldest_waiting_seconds\{queue="gauged"\} 0\.\d+/);
  await queue.obliterate();
  expect(await scrape()).not.toContain("gauged");
  await queue.close();
});
