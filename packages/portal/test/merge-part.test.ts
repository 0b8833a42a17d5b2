import { Dispatcher, encodeService, HttpDispatcher, keyOf, MergeQueue } from "@ropeway/merge";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mergePart } from "../src/index.ts";
import { problemOf, Stage } from "./stage.fixture.ts";

const HOOK = "http://127.0.0.1:9/hook";
const PATH = `/v3/queue/digest_1/POST/${encodeService(HOOK)}`;
const KEY = `digest_1 ${HOOK} POST`;

const { server, redis } = await redisForFile(); // the portal's own Redis is the stage's
const queue = new MergeQueue(redis, { prefix: "{q}" });
let stage: Stage;
let admin: { authorization: string };

beforeAll(async () => {
  stage = await Stage.open({ parts: [mergePart(queue, { allow: ["loopback"] })] });
  admin = await stage.bearer();
});

afterAll(() => stage.close());

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at, not typed
const ask = async (path: string, init: object = {}): Promise<any> => {
  const answer = await stage.ask(path, { headers: admin, ...init });
  return answer.status === 204 ? undefined : answer.json();
};

test("every route needs an account, and writing needs more than looking", async () => {
  const routes = stage.portal.routes.filter(({ url }) => /merge|v3/.test(url));
  expect(routes.length).toBeGreaterThanOrEqual(15);
  for (const { method, url } of routes) {
    const path = url.replace(":id", "x").replace("*", "k/POST/x");
    expect((await stage.ask(path, { method })).status).toBe(401);
  }
  await stage.addAccount("vera", "viewer");
  const viewer = await stage.bearer("vera");
  expect((await stage.ask("/api/merge/stats", { headers: viewer })).status).toBe(200);
  const pause = await stage.ask("/api/merge/pause", { method: "POST", headers: viewer });
  expect(pause.status).toBe(403);
  expect((await stage.ask(PATH, { method: "POST", headers: viewer, body: {} })).status).toBe(403);
});

test("pushed by v3, seen, searched, sent now and deleted", async () => {
  const pushed = await stage.ask(`${PATH}?ontime=4000000000`, {
    method: "POST",
    headers: admin,
    body: { n: 1 },
  });
  expect(pushed.status).toBe(202);
  expect(await pushed.json()).toMatchObject({ key: "digest_1", items: 1, ontime: 4_000_000_000 });
  expect(await ask("/api/merge/stats")).toMatchObject({ keys: 1, due: 0, paused: false });
  const { items: entries, cursor } = await ask("/api/merge/keys");
  expect(entries).toMatchObject([
    { key: KEY, items: 1, state: "waiting", destination: { mergeKey: "digest_1", url: HOOK } },
  ]);
  expect(cursor).toBeNull();
  expect((await ask("/api/merge/keys?search=digest")).items).toHaveLength(1);
  expect((await ask("/api/merge/keys?search=nothing")).items).toHaveLength(0);
  const detail = await ask(`/api/merge/key?key=${encodeURIComponent(KEY)}`);
  expect(detail.oldest).toMatchObject([{ body: '{"n":1}', encoding: "utf8" }]);
  expect(await ask(PATH)).toMatchObject({ items: 1 });
  const post = { method: "POST", body: { key: KEY } };
  expect(await ask("/api/merge/key/send-now", post)).toEqual({ items: 1 });
  expect(await ask("/api/merge/stats")).toMatchObject({ due: 1 });
  expect(await ask(PATH, { method: "DELETE" })).toEqual({ deleted: 1 });
  const gone = `/api/merge/key?key=${encodeURIComponent(KEY)}`;
  expect(await ask(gone, { method: "DELETE" })).toEqual({ deleted: 0, sending: 0 });
});

test("a search returns no more than asked for, and every key once over all pages", async () => {
  const keys = Array.from({ length: 120 }, (_, n) => `found_${n} ${HOOK} POST`);
  for (const key of keys) await queue.push(key, "{}", { at: 4_000_000_000_000 });
  await queue.push(`other ${HOOK} POST`, "{}", { at: 4_000_000_000_000 });
  const seen: string[] = [];
  let cursor: string | null = "";
  for (let pages = 0; cursor !== null && pages < 500; pages++) {
    const more: string = cursor && `&cursor=${encodeURIComponent(cursor)}`;
    const page = await ask(`/api/merge/keys?search=found&limit=5${more}`);
    expect(page.items.length).toBeLessThanOrEqual(5);
    seen.push(...page.items.map(({ key }: { key: string }) => key));
    cursor = page.cursor;
  }
  expect(seen.sort()).toEqual(keys.sort());
  for (const key of [...keys, `other ${HOOK} POST`]) {
    await ask(`/api/merge/key?key=${encodeURIComponent(key)}`, { method: "DELETE" });
  }
});

test("dead letters are listed, looked into, replayed and discarded", async () => {
  const dispatcher = await new Dispatcher(queue, async () => ({
    kind: "dead",
    reason: "lost",
  })).start();
  await queue.push("one", "a");
  await queue.push("two", Buffer.from([0xff]));
  const letters = await eventually(async () => {
    const { items: entries } = await ask("/api/merge/letters");
    expect(entries).toHaveLength(2);
    return entries as { id: string; key: string }[];
  });
  await dispatcher.close();
  const idOf = (key: string) => letters.find((letter) => letter.key === key)?.id;
  expect((await ask("/api/merge/letters?key=one")).items).toMatchObject([
    { key: "one", reason: "lost", items: 1, destination: null },
  ]);
  expect((await ask(`/api/merge/letters/${idOf("two")}/items`)).items).toMatchObject([
    { body: "/w==", encoding: "base64" },
  ]);
  const replayed = await ask(`/api/merge/letters/${idOf("one")}/replay`, { method: "POST" });
  expect(replayed).toEqual({ items: 1 });
  expect(await ask(`/api/merge/letters/${idOf("two")}`, { method: "DELETE" })).toEqual({
    items: 1,
  });
  const missing = await stage.ask("/api/merge/letters/none", { method: "DELETE", headers: admin });
  expect(missing.status).toBe(404);
  expect(await missing.json()).toMatchObject({ code: "UNKNOWN_LETTER" });
  expect((await ask("/api/merge/letters")).items).toEqual([]);
});

test("endpoints are disabled and enabled, and the queue is paused and resumed", async () => {
  const url = "https://example.com/hook";
  await ask("/api/merge/endpoints/disable", { method: "POST", body: { url, reason: "moved" } });
  expect((await ask("/api/merge/endpoints")).items).toMatchObject([{ url, disabled: "moved" }]);
  await ask("/api/merge/endpoints/enable", { method: "POST", body: { url } });
  expect((await ask("/api/merge/endpoints")).items).toEqual([]);
  const bad = await stage.ask("/api/merge/endpoints/enable", {
    method: "POST",
    headers: admin,
    body: { url: "ftp://x" },
  });
  expect(bad.status).toBe(400);
  const unknown = await stage.ask("/api/merge/endpoints/enable", {
    method: "POST",
    headers: admin,
    body: { url: `${url}s` },
  });
  expect(unknown.status).toBe(404);
  expect(await unknown.json()).toMatchObject({ code: "UNKNOWN_ENDPOINT" });
  await ask("/api/merge/pause", { method: "POST" });
  expect(await ask("/api/merge/stats")).toMatchObject({ paused: true });
  await ask("/api/merge/resume", { method: "POST" });
  expect(await ask("/api/merge/stats")).toMatchObject({ paused: false });
});

test("one key is paused and resumed, and so is one endpoint", async () => {
  const url = "https://example.com/mended";
  const post = (path: string, body: object) => ask(path, { method: "POST", body });
  await post("/api/merge/key/pause", { key: KEY });
  await queue.push(KEY, "1", { at: 4_000_000_000_000 });
  expect((await ask("/api/merge/keys?search=digest")).items).toMatchObject([
    { key: KEY, paused: true },
  ]);
  expect(await ask(PATH)).toMatchObject({ batches: [{ paused: true }] });
  expect(await ask("/api/merge/stats")).toMatchObject({ paused: false, pausedKeys: 1 });
  expect(await post("/api/merge/key/resume", { key: KEY })).toEqual({ wasPaused: true });
  expect(await post("/api/merge/key/resume", { key: KEY })).toEqual({ wasPaused: false });
  expect(await ask("/api/merge/stats")).toMatchObject({ pausedKeys: 0 });
  await ask(PATH, { method: "DELETE" });
  await post("/api/merge/endpoints/pause", { url });
  expect((await ask("/api/merge/endpoints")).items).toMatchObject([{ url, paused: true }]);
  await post("/api/merge/endpoints/enable", { url });
  expect((await ask("/api/merge/endpoints")).items).toEqual([]);
});

test("an endpoint is the same one however its URL is written", async () => {
  const post = (path: string, body: object) => ask(path, { method: "POST", body });
  const listed = async () => (await ask("/api/merge/endpoints")).items;
  await post("/api/merge/endpoints/pause", { url: "HTTPS://Example.com:443" });
  await post("/api/merge/endpoints/disable", { url: "https://example.com", reason: "moved" });
  expect(await listed()).toMatchObject([
    { url: "https://example.com/", paused: true, disabled: "moved" },
  ]);
  await post("/api/merge/endpoints/enable", { url: "https://example.com#top" });
  expect(await listed()).toEqual([]);
});

test("a wrong v3 request is a problem of the portal that names the parameter", async () => {
  const answer = await stage.ask(`${PATH}?ontime=soon`, {
    method: "POST",
    headers: admin,
    body: {},
  });
  expect(answer.status).toBe(400);
  expect((await answer.json()) as object).toMatchObject({
    code: "INVALID_ARGUMENT",
    detail: expect.stringContaining("ontime"),
  });
});

test("/metrics shows the queue in numbers", async () => {
  const text = await (await stage.ask("/metrics")).text();
  for (const name of ["keys", "due_keys", "dead_letters", "oldest_due_seconds"]) {
    expect(text).toMatch(new RegExp(`^ropeway_merge_${name} \\d`, "m"));
  }
});

test("recurring pushes are written, listed, paused, resumed and deleted", async () => {
  const schedule = {
    destination: { mergeKey: "weekly", url: HOOK },
    body: '{"n":1}',
    cron: "0 9 * * 1",
    timeZone: "Europe/Berlin",
    startAt: "2090-01-01T00:00:00.000Z",
    request: { attempts: 3 },
  };
  const path = "/api/merge/schedules/weekly";
  const written = await ask(path, { method: "PUT", body: schedule });
  expect(written).toMatchObject({
    ...{ id: "weekly", state: "active", nextAt: "2090-01-02T08:00:00.000Z", lastAt: null, runs: 0 },
    schedule: { ...schedule, encoding: "utf8" },
  });
  expect(await ask(path)).toEqual(written);
  expect(await ask("/api/merge/schedules")).toEqual({ items: [written], cursor: null });
  expect(await ask(`${path}/pause`, { method: "POST" })).toBeUndefined();
  expect(await ask(path)).toMatchObject({ state: "paused", nextAt: null });
  expect(await ask(`${path}/resume`, { method: "POST" })).toBeUndefined();
  expect(await ask(path)).toEqual(written);
  expect(await ask(path, { method: "DELETE" })).toEqual({ removed: true });
  expect(await ask(path, { method: "DELETE" })).toEqual({ removed: false });
  expect(await ask(path)).toMatchObject({ status: 404, code: "UNKNOWN_SCHEDULE" });
  expect(await ask(`${path}/pause`, { method: "POST" })).toMatchObject({ status: 404 });
  const both = { ...schedule, everyMs: 1_000 };
  expect(await ask(path, { method: "PUT", body: both })).toMatchObject({ status: 400 });
  const blocked = { ...schedule, destination: { mergeKey: "k", url: "http://10.0.0.1/" } };
  expect(await ask(path, { method: "PUT", body: blocked })).toMatchObject({
    code: "BLOCKED_ENDPOINT",
  });
  const bytes = {
    ...{ destination: { mergeKey: "-k", url: HOOK }, everyMs: 60_000 },
    ...{ body: "/wA=", encoding: "base64", contentType: "image/png" },
  };
  expect((await ask(path, { method: "PUT", body: bytes })).schedule).toMatchObject(bytes);
  await ask(path, { method: "DELETE" });
});

test("attempts are listed, and followed live from where a client left", async () => {
  const dispatcher = new HttpDispatcher(queue, {
    ...{ allow: ["loopback"], attempts: 2, backoff: { delayMs: 10, maxMs: 10 } },
  });
  await dispatcher.start();
  await queue.push(KEY, "1");
  const logged = await eventually(async () => {
    const { items } = await ask(`/api/merge/attempts?url=${encodeURIComponent(HOOK)}`);
    expect(items).toMatchObject([
      { result: "dead", attempt: 2, status: null, destination: { url: HOOK } },
      { result: "retry", attempt: 1 },
    ]);
    return items;
  });
  const wrongId = { headers: { ...admin, "last-event-id": "yesterday" } };
  const refused = await stage.ask("/api/merge/events", wrongId);
  expect(await problemOf(refused)).toMatchObject({
    status: 400,
    errors: [{ pointer: "/header/last-event-id" }],
  });
  const leave = new AbortController();
  const streamed = await stage.ask("/api/merge/events?result=dead", {
    headers: { ...admin, "last-event-id": logged[1].entry },
    signal: leave.signal,
  });
  expect(streamed.headers.get("content-type")).toBe("text/event-stream");
  let text = "";
  for await (const chunk of streamed.body ?? []) {
    text += Buffer.from(chunk as Uint8Array).toString("utf8");
    if (text.includes("data: ")) break;
  }
  leave.abort();
  const metrics = await (await stage.ask("/metrics")).text();
  for (const line of [
    'ropeway_merge_deliveries_total{result="retry"} 1',
    'ropeway_merge_deliveries_total{result="dead"} 1',
    'ropeway_merge_items_total{result="dead"} 1',
    'ropeway_merge_bytes_total{result="dead"} 1',
    'ropeway_merge_failures_total{reason="connection"} 2',
    "ropeway_merge_retries_total 1",
    'ropeway_merge_lateness_seconds_bucket{le="+Inf"} 1',
    "ropeway_merge_lateness_seconds_count 1",
    "ropeway_merge_open_breakers 0",
  ]) {
    expect(metrics).toContain(`${line}\n`);
  }
  expect(text).toContain(`event: dead\nid: ${logged[0].entry}\ndata: {`);
  expect(text).not.toContain("event: retry");
  await dispatcher.close();
  await ask("/api/merge/letters/discard", { method: "POST", body: {} });
});

test("a foreign value in place of the timer makes the portal not ready, until it is gone", async () => {
  const probe = async () => {
    const { probes } = await ask("/readyz?verbose");
    return probes.find(({ name }: { name: string }) => name === "merge");
  };
  expect(await probe()).toMatchObject({ ok: true });
  await server.command("RENAME", queue.keys.timer, "{q}:kept").catch(() => undefined); // may be empty
  await server.command("SET", queue.keys.timer, "of another program");
  expect((await stage.ask("/readyz")).status).toBe(503);
  expect(await probe()).toMatchObject({ ok: false, code: "WRONG_KEY_TYPE" });
  await server.command("DEL", queue.keys.timer);
  await server.command("RENAME", "{q}:kept", queue.keys.timer).catch(() => undefined);
  expect((await stage.ask("/readyz")).status).toBe(200);
});

test("a misspelt filter or limit is refused, and values of other programs break no list", async () => {
  const dead = { kind: "dead", reason: "lost" } as const;
  const dispatcher = await new Dispatcher(queue, async () => dead).start();
  await queue.push("typo", "a");
  const listed = async () => (await ask("/api/merge/letters?key=typo")).items;
  await eventually(async () => expect(await listed()).toHaveLength(1));
  await dispatcher.close();
  for (const verb of ["discard", "replay"]) {
    const init = { method: "POST", headers: admin, body: { urll: HOOK } };
    expect((await stage.ask(`/api/merge/letters/${verb}`, init)).status).toBe(400);
  }
  expect(await listed()).toHaveLength(1);
  const limit = { method: "POST", headers: admin, body: { url: HOOK, rate: 7 } };
  expect((await stage.ask("/api/merge/endpoints/limit", limit)).status).toBe(400);

  await server.command("XADD", queue.keys.attempts, "*", "attempt", '{"key":1}');
  await server.command("ZADD", queue.keys.endpoints, "1", "no url");
  await server.command("ZADD", queue.keys.dead, "1", "odd");
  await server.command("HSET", `${queue.keys.dead}:odd`, "key", "k", "at", "1e300", "items", "x");
  await server.command("ZADD", queue.keys.schedules, "inf", "odd");
  await server.command("HSET", queue.keys.schedule("odd"), "runs", "x", "last", "x");
  await queue.push("odd", "1", { at: 4_000_000_000_000 });
  await server.command("LSET", `${queue.keys.queue("odd")}:items`, "0", "id 1e300 - -");
  await server.command("HSET", `${queue.keys.queue("odd")}:state`, "attempts", "x");
  for (const path of ["attempts", "endpoints", "letters", "schedules", "keys", "key?key=odd"]) {
    const answer = await stage.ask(`/api/merge/${path}`, { headers: admin });
    expect({ path, status: answer.status }).toEqual({ path, status: 200 });
  }
});

test("the audit log has no secrets of the URLs that are pushed to", async () => {
  const secret = "http://127.0.0.1:9/hook/Hidden1";
  for (const service of [encodeService(secret), encodeURIComponent(secret), secret]) {
    await ask(`/v3/queue/audited/POST/${service}?x=Hidden2`, { method: "POST", body: "1" });
  }
  const { items } = await ask("/api/audit");
  const pushes = JSON.stringify(items.filter(({ path }: { path: string }) => /audited/.test(path)));
  expect(pushes).toContain("POST /v3/queue/*");
  expect(pushes).not.toContain("Hidden");
  expect(pushes).not.toContain(encodeService(secret));
});

test("the audit log names the key or the origin of the endpoint that was changed, without secrets", async () => {
  const url = "http://127.0.0.1:9/hook/Hidden1?x=Hidden2";
  const post = (path: string, body: object) => ask(path, { method: "POST", body });
  const keyed = keyOf({ mergeKey: "named", method: "POST", url }, "");
  await post("/api/merge/key/pause", { key: "plain" });
  await post("/api/merge/key/resume", { key: keyed });
  await post("/api/merge/endpoints/pause", { url });
  await ask("/api/merge/pause", { method: "POST" });
  await ask("/api/merge/resume", { method: "POST" });
  const { items } = await ask("/api/audit");
  const subjects = items.map(({ subject }: { subject: string }) => subject);
  expect(subjects).toEqual(
    expect.arrayContaining([
      "key plain",
      "key named http://127.0.0.1:9/***",
      "endpoint http://127.0.0.1:9/***",
    ]),
  );
  const ofAll = items.filter(({ path }: { path: string }) => /merge\/(pause|resume)$/.test(path));
  expect(ofAll.length).toBeGreaterThanOrEqual(2);
  for (const { subject } of ofAll) expect(subject).toBe("all keys");
  expect(JSON.stringify(items)).not.toContain("Hidden");
});

test("misspelt parameters and fields are refused", async () => {
  const destination = { mergeKey: "-k", url: HOOK };
  const schedule = { destination, body: "1", everyMs: 60_000 };
  const requests: [method: string, path: string, body?: object][] = [
    ["GET", "/api/merge/keys?limt=3"],
    ["GET", "/api/merge/letters?resaon=x"],
    ["DELETE", "/api/merge/key?key=a&kye=b"],
    ["GET", `${PATH}?curser=1`],
    ["POST", `${PATH}?onTime=4000000000`, {}],
    ["POST", "/api/merge/key/send-now", { key: "a", keys: "b" }],
    ["POST", "/api/merge/endpoints/pause", { url: HOOK, reason: "x" }],
    ["PUT", "/api/merge/schedules/s", { ...schedule, request: { retries: 3 } }],
    ["PUT", "/api/merge/schedules/s", { ...schedule, destination: { ...destination, key: "k" } }],
    ["PUT", "/api/merge/schedules/s", { ...schedule, body: "!!!!", encoding: "base64" }],
  ];
  for (const [method, path, body] of requests) {
    const answer = await stage.ask(path, { method, headers: admin, ...(body && { body }) });
    expect([method, path, answer.status]).toEqual([method, path, 400]);
  }
  expect((await ask("/api/merge/schedules/s")).code).toBe("UNKNOWN_SCHEDULE");
  const image = { ...schedule, body: "_-8=", encoding: "base64" };
  expect((await ask("/api/merge/schedules/s", { method: "PUT", body: image })).schedule.body).toBe(
    "/+8=",
  );
  await ask("/api/merge/schedules/s", { method: "DELETE" });
});
