/**
 * The description of the API held against its behaviour: every operation is called, with what it takes to
 * succeed, and every response must match what the description says about its status.
 */
import { Cluster, ClusterNode, openRedisStore, SecretBox, scriptedRunner } from "@ropeway/cluster";
import { keys } from "@ropeway/cluster/internal";
import { Worker } from "@ropeway/jobs";
import { Chat } from "@ropeway/kit/chat";
import { Lock } from "@ropeway/kit/lock";
import { Semaphore } from "@ropeway/kit/semaphore";
import { Dispatcher, encodeService, MergeQueue } from "@ropeway/merge";
import { RpcServer } from "@ropeway/rpc";
import { eventually } from "@ropeway/testkit";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import {
  alertsPart,
  jobsPart,
  kitPart,
  mergePart,
  nodesPart,
  rpcPart,
  tasksPart,
} from "../src/index.ts";
import type { ApiDescription } from "../src/openapi/description.ts";
import { PASSWORD, Stage } from "./stage.fixture.ts";

vi.setConfig({ testTimeout: 90_000 });

const HOOK = "http://127.0.0.1:9/hook";
const V3 = `/v3/queue/digest/POST/${encodeService(HOOK)}`;
const KEY = `digest ${HOOK} POST`;
const secrets = new SecretBox("33".repeat(32));

let stage: Stage;
let queue: MergeQueue;
let cluster: Cluster;
let admin: { authorization: string };
let api: ApiDescription;
const ajv = new Ajv2020({ strict: false, validateFormats: false });
const succeeded = new Set<string>();
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  stage = await Stage.open({
    partsOf(redis) {
      queue = new MergeQueue(redis, { prefix: "{q}" });
      const store = openRedisStore(redis);
      closing.push(() => store.close());
      cluster = new Cluster(store, { secrets });
      return [
        mergePart(queue, { allow: ["loopback"] }),
        jobsPart(redis),
        rpcPart(redis),
        tasksPart(cluster),
        nodesPart(cluster),
        alertsPart(cluster),
        kitPart(redis),
      ];
    },
  });
  admin = await stage.bearer();
  api = (await (await stage.ask("/openapi.json")).json()) as ApiDescription;
  ajv.addSchema(api, "api");
});
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await stage.close();
});

/** The documented path that a path is an instance of. */
function documented(path: string): string {
  const words = path.split("?", 1)[0]?.split("/") ?? [];
  const matches = Object.keys(api.paths).filter((template) => {
    const parts = template.split("/");
    return (
      parts.length === words.length &&
      parts.every((part, index) => part.startsWith("{") || part === words[index])
    );
  });
  const fixed = (template: string) => template.split("/").filter((part) => !part.startsWith("{"));
  return matches.sort((a, b) => fixed(b).length - fixed(a).length)[0] ?? `none for ${path}`;
}

/** Asks `POST /path`, and holds the response against the description. */
async function ask(
  route: string,
  body?: unknown,
  { accept, headers = admin }: { accept?: string; headers?: Record<string, string> } = {},
) {
  const [method = "", path = ""] = route.split(" ", 2);
  const leaving = new AbortController();
  const response = await stage.ask(path, {
    method,
    headers: { ...headers, ...(accept !== undefined && { accept }) },
    signal: leaving.signal,
    ...(body !== undefined && { body }),
  });
  const place = documented(path);
  const { status } = response;
  const responses = api.paths[place]?.[method.toLowerCase()]?.responses ?? {};
  const found = responses[status] === undefined ? `${String(status)[0]}XX` : String(status);
  const [type = ""] = (response.headers.get("content-type") ?? "").split(";", 1);
  if (type === "text/event-stream") leaving.abort();
  const text = type === "text/event-stream" ? "" : await response.text();
  const shown = `${route}: ${status} ${type} ${text.slice(0, 300)}`;
  expect(Object.keys(responses), shown).toContain(found);
  const { content } = responses[found] ?? { description: "" };
  if (content === undefined) expect([shown, text]).toEqual([shown, ""]);
  else expect(Object.keys(content), shown).toContain(type);
  if (status < 300) succeeded.add(`${method} ${place}`);
  if (!type.endsWith("json")) return text as never;
  const pointer = ["paths", place, method.toLowerCase(), "responses", found, "content", type];
  const escaped = pointer.map((word) => word.replaceAll("~", "~0").replaceAll("/", "~1"));
  const uri = [...escaped, "schema"].map(encodeURIComponent).join("/");
  const value = JSON.parse(text);
  const valid = ajv.validate({ $ref: `api#/${uri}` }, value);
  expect([shown, valid, ajv.errorsText()]).toEqual([shown, true, "No errors"]);
  return value;
}

test("accounts, roles, tokens and the audit log", async () => {
  await stage.addAccount("otto", "viewer");
  const login = { username: "otto", password: PASSWORD };
  await ask("POST /api/session", login, { headers: {} });
  const { token } = await ask("POST /api/session", { ...login, as: "token" }, { headers: {} });
  const own = { authorization: `Bearer ${token}` };
  await ask("GET /api/session");
  await ask("PUT /api/session/password", { current: PASSWORD, next: PASSWORD }, { headers: own });
  await ask("DELETE /api/session", undefined, { headers: own });
  await ask("GET /api/session", undefined, { headers: own }); // 401
  await ask("POST /api/roles", { name: "stopper", permissions: ["task:operate"], groups: ["a"] });
  await ask("POST /api/users", { username: "anna", role: "stopper" });
  await ask("POST /api/users", { username: "", role: 1 }); // 400
  await ask("PATCH /api/users/anna", { role: "viewer" });
  await ask("GET /api/users");
  await ask("GET /api/roles");
  const made = await ask("POST /api/tokens", { name: "ci", expiresInDays: 1 });
  await ask("GET /api/session", undefined, {
    headers: { authorization: `Bearer ${made.token}` },
  });
  await ask("GET /api/tokens");
  await ask(`DELETE /api/tokens/${made.id}`);
  await ask("DELETE /api/users/anna");
  await ask("DELETE /api/users/anna"); // 404
  await ask("DELETE /api/roles/stopper");
  await ask("GET /api/audit?limit=5");
});

test("tasks, nodes and alerts", async () => {
  const store = openRedisStore(stage.redis);
  const node = await new ClusterNode(store, {
    id: "node_api",
    address: "http://127.0.0.1:9",
    runners: [scriptedRunner()],
    secrets,
    reportMs: 200,
    progressMs: 100,
  }).start();
  closing.push(
    () => store.close(),
    () => node.close(),
  );
  const wish = { name: "one", type: "scripted", config: {}, group: "a" };
  const key = { ...admin, "idempotency-key": "k1" };
  const { id } = await ask("POST /api/tasks", wish, { headers: key });
  await ask("POST /api/tasks", wish, { headers: key }); // 200, the same
  await ask("POST /api/tasks", { ...wish, config: { no: 1 } }); // 400
  await ask("POST /api/tasks", wish); // 409
  await ask(`PATCH /api/tasks/${id}`, { immortal: true });
  const is = (status: string) =>
    eventually(async () => expect((await ask(`GET /api/tasks/${id}`)).status).toBe(status), {
      withinMs: 20_000,
    });
  await ask(`POST /api/tasks/${id}/start`, {});
  await is("COMMANDRUNNING");
  await ask(`POST /api/tasks/${id}/move`, { node: "node_api" });
  await ask("GET /api/tasks?status=COMMANDRUNNING&limit=1");
  await ask("GET /api/tasks?status=NOPE"); // 400
  for (const what of ["events", "offset", "bigkeys", "discarded"])
    await ask(`GET /api/tasks/${id}/${what}`);
  await ask("GET /api/nodes");
  await ask("POST /api/nodes/node_api/undrain");
  await ask("POST /api/nodes/node_none/drain"); // 404
  await ask(`POST /api/tasks/${id}/stop`);
  await is("STOP");
  await ask("POST /api/nodes/node_api/drain");
  await ask(`DELETE /api/tasks/${id}`);
  expect(await ask("DELETE /api/nodes/node_api")).toMatchObject({ status: 409 }); // it is online
  const offline = { nodeid: "node_old", nodetype: "redissyncer", online: false };
  await store.put(keys.node("redissyncer", "node_old"), JSON.stringify(offline));
  await ask("POST /api/nodes/node_old/drain");
  await ask("DELETE /api/nodes/node_old");
  expect(await store.get(keys.drain("node_old"))).toBeUndefined();
  await cluster.alerts.raise({
    kind: "task-broken",
    subject: "task_1",
    cause: "test",
    text: "it broke",
  });
  const { items } = await ask("GET /api/alerts");
  await ask(`POST /api/alerts/${items[0].id}/ack`);
});

test("the merge queue and its admin", async () => {
  await ask(`POST ${V3}?ontime=4000000000`, { n: 1 });
  await ask(`POST ${V3}?ontime=never`, { n: 1 }); // 400
  await ask(`GET ${V3}`);
  const key = encodeURIComponent(KEY);
  for (const path of ["stats", "keys?search=digest", `key?key=${key}`, "key?key=none"])
    await ask(`GET /api/merge/${path}`);
  await ask("POST /api/merge/key/pause", { key: KEY });
  await ask("POST /api/merge/key/resume", { key: KEY });
  await ask("POST /api/merge/pause");
  await ask("POST /api/merge/resume");
  const url = { url: HOOK };
  await ask("POST /api/merge/endpoints/limit", { ...url, concurrency: 1 });
  await ask("POST /api/merge/endpoints/rotate-secret", url);
  await ask("POST /api/merge/endpoints/remove-secrets", url);
  for (const verb of ["pause", "disable", "enable"])
    await ask(`POST /api/merge/endpoints/${verb}`, url);
  const dispatcher = await new Dispatcher(queue, async () => ({
    kind: "dead",
    reason: "lost",
  })).start();
  closing.push(() => dispatcher.close());
  const bury = async (): Promise<string> => {
    await ask(`POST ${V3}`, { n: 2 });
    await ask("POST /api/merge/key/send-now", { key: KEY });
    return eventually(async () => {
      const { items } = await ask("GET /api/merge/letters");
      expect(items.length).toBeGreaterThan(0);
      return items[0].id as string;
    });
  };
  const first = encodeURIComponent(await bury());
  await ask("GET /api/merge/endpoints");
  await ask("GET /api/merge/attempts");
  await ask("GET /api/merge/events");
  await ask(`GET /api/merge/letters/${first}`);
  await ask(`GET /api/merge/letters/${first}/items`);
  await ask("GET /api/merge/letters/none");
  await ask(`POST /api/merge/letters/${first}/replay`);
  await ask(`DELETE /api/merge/letters/${encodeURIComponent(await bury())}`);
  await ask("POST /api/merge/letters/replay", url);
  await ask("POST /api/merge/letters/discard", url);
  await ask(`DELETE /api/merge/key?key=${key}`);
  const schedule = {
    ...{ destination: { mergeKey: "weekly", ...url }, body: "1", cron: "0 9 * * 1" },
  };
  await ask("PUT /api/merge/schedules/weekly", schedule);
  await ask("GET /api/merge/schedules");
  await ask("GET /api/merge/schedules/weekly");
  await ask("POST /api/merge/schedules/weekly/pause");
  await ask("POST /api/merge/schedules/weekly/resume");
  await ask("DELETE /api/merge/schedules/weekly");
  await ask(`DELETE ${V3}`);
});

test("jobs", async () => {
  const base = "/api/jobs/queues/mail";
  const { id } = await ask(`POST ${base}/jobs`, { name: "welcome", data: { to: "a" } });
  await ask(`POST ${base}/jobs`, { data: 1 }); // 400
  const later = { name: "later", data: 1, options: { id: "j2", delayMs: 3_600_000 } };
  await ask(`POST ${base}/jobs`, later);
  for (const path of ["", "/rates", "/jobs?limit=1", `/jobs/${id}`, "/jobs/none", "/events"])
    await ask(`GET ${base}${path}`);
  await ask("GET /api/jobs/queues");
  await ask("GET /api/jobs/queues/none"); // 404
  await ask(`PATCH ${base}/jobs/j2`, { data: 2 });
  await ask(`POST ${base}/jobs/j2/promote`);
  await ask(`POST ${base}/jobs/j2/retry`); // 409: it did not fail
  await ask(`POST ${base}/jobs/j2/cancel`, { reason: "no need" });
  const fails = () => Promise.reject(new Error("no"));
  const worker = await new Worker(stage.redis, "failing", fails).start();
  closing.push(() => worker.close());
  const failing = "/api/jobs/queues/failing/jobs";
  const failed = await ask(`POST ${failing}`, { name: "boom", data: 1 });
  await eventually(async () => {
    expect(await ask(`GET ${failing}/${failed.id}`)).toMatchObject({ state: "failed" });
  });
  await ask(`POST ${failing}/${failed.id}/retry`);
  await ask(`DELETE ${base}/jobs/${id}`);
  await ask(`PUT ${base}/limits`, { concurrency: 1 });
  await ask(`PUT ${base}/schedules/daily`, { name: "welcome", data: 1, everyMs: 3_600_000 });
  await ask(`DELETE ${base}/schedules/daily`);
  await ask(`DELETE ${base}/dedupe/none`);
  await ask(`POST ${base}/retry-failed`);
  await ask(`POST ${base}/pause`);
  await ask(`POST ${base}/drain`, { states: ["waiting"] });
  await ask(`POST ${base}/resume`);
  await ask(`POST ${base}/obliterate`, { force: true });
});

test("calls and building blocks", async () => {
  const server = await new RpcServer(stage.redis, { ns: "shop" })
    .add("demo", { add: ([a, b]: [number, number]) => a + b })
    .start();
  closing.push(() => server.close());
  await ask("GET /api/rpc/namespaces");
  await ask("GET /api/rpc/shop/services");
  const call = { jsonrpc: "2.0", method: "add", params: [1, 2] };
  await ask("POST /rpc/shop/demo", { ...call, id: 1 });
  await ask("POST /rpc/shop/demo", [{ ...call, id: 1 }]);
  await ask("POST /rpc/shop/demo", { ...call, method: "none", id: 1 });
  await ask("POST /rpc/shop/demo", call); // a notification: 204
  const held = await new Lock(stage.redis, "l").acquire();
  const permit = await new Semaphore(stage.redis, "s", { limit: 2 }).acquire();
  await new Chat(stage.redis).create({ sender: "a", recipients: ["b"], message: 1, id: "lobby" });
  for (const what of ["locks", "semaphores", "rooms", "transfers"])
    await ask(`GET /api/kit/${what}`);
  await ask("POST /api/kit/locks/l/break");
  await held.release();
  await permit.release();
});

test("pages and probes; every operation of the description has succeeded once", async () => {
  for (const path of ["/", "/docs", "/metrics", "/openapi.json", "/healthz", "/readyz?verbose"])
    await ask(`GET ${path}`);
  const all = Object.entries(api.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(all.filter((operation) => !succeeded.has(operation))).toEqual([]);
});
