/** Tasks and the server that keeps the portal's own accounts: whoever may write there is an admin. */
import { Cluster, ClusterNode, openRedisStore, SecretBox, syncRunner } from "@ropeway/cluster";
import { connect, type Redis } from "@ropeway/core";
import { eventually, type RedisServer, startCluster, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AccessStore } from "../src/access/store.ts";
import { createPortal, tasksPart } from "../src/index.ts";
import { problemOf, Stage } from "./stage.fixture.ts";

const ACCOUNT = "ropeway:store:/tasks/user/admin";

let stage: Stage;
let admin: { authorization: string };
let mallory: { authorization: string };
let evil: RedisServer;
let theirs: Redis;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  stage = await Stage.open({
    partsOf(redis) {
      const shared = openRedisStore(redis);
      closing.push(() => shared.close());
      return [tasksPart(new Cluster(shared))];
    },
  });
  evil = await startRedis();
  theirs = await connect(evil.url);
  const store = openRedisStore(stage.redis);
  const node = await new ClusterNode(store, {
    ...{ id: "node_own", address: "http://127.0.0.1:9", runners: [syncRunner()] },
    ...{ secrets: new SecretBox(undefined), reportMs: 200, progressMs: 100 },
  }).start();
  closing.unshift(
    () => node.close(),
    () => store.close(),
    () => theirs.close(),
    () => evil.close(),
  );
  admin = await stage.bearer();
  const role = { name: "team", permissions: ["task:edit", "task:operate"], groups: ["team-a"] };
  await stage.ask("/api/roles", { method: "POST", headers: admin, body: role });
  await stage.addAccount("mallory", "team");
  mallory = await stage.bearer("mallory");
});
afterAll(async () => {
  for (const close of closing) await close();
  await stage.close();
});

let count = 0;
interface View {
  readonly id: string;
  readonly status: string;
  readonly reason: string;
}

async function create(headers: { authorization: string }, config: object): Promise<View> {
  const body = { name: `copy ${count++}`, group: "team-a", config, start: true };
  const answer = await stage.ask("/api/tasks", { method: "POST", headers, body });
  expect(answer.status).toBe(201);
  return (await answer.json()) as View;
}

/** How the task ended. */
async function endOf({ id }: View): Promise<View> {
  return eventually(
    async () => {
      const answer = await stage.ask(`/api/tasks/${id}`, { headers: admin });
      const view = (await answer.json()) as View;
      expect(["FINISH", "BROKEN"]).toContain(view.status);
      return view;
    },
    { withinMs: 20_000 },
  );
}

test("a task of somebody who is no admin neither writes nor reads the accounts", async () => {
  const before = await stage.redis.send(["GET", ACCOUNT]);
  const own = stage.server.url;
  await theirs.send(["SET", ACCOUNT, '{"role":"admin"}']);
  const renamed = { rename: { "x:": "ropeway:store:" } };
  for (const config of [
    { from: evil.url, to: own, mode: "stock" },
    { from: evil.url, to: own, mode: "stock", scan: true, ...renamed },
    { from: evil.url, to: own.replace("127.0.0.1", "localhost"), flush: "apply" },
    { from: own, to: evil.url, mode: "stock" },
    { from: own, to: evil.url, mode: "stock", scan: true },
  ]) {
    const { status, reason } = await endOf(await create(mallory, config));
    expect(status).toBe("BROKEN");
    expect(reason).toMatch(/has the key ropeway:store:@state.* only a task of an admin may use it/);
  }
  expect(await stage.redis.send(["GET", ACCOUNT])).toBe(before);
  expect(await theirs.send(["KEYS", "ropeway:store:*"])).toEqual([ACCOUNT]);
}, 60_000);

test("a task of somebody who is no admin does not use a Redis that has only sessions, in any database", async () => {
  await using server = await startRedis();
  await using redis = await connect(`${server.url}/3`);
  // The accounts are elsewhere, as with etcd.
  await using store = openRedisStore(stage.redis);
  await using portal = createPortal(redis, { store });
  await portal.start();
  await theirs.send(["FLUSHALL"]);
  await theirs.send(["SET", "forged", "1"]);
  for (const config of [
    { from: evil.url, to: server.url, mode: "stock" },
    { from: server.url, to: evil.url, mode: "stock" },
    { from: server.url, to: evil.url, mode: "stock", scan: true },
  ]) {
    const { status, reason } = await endOf(await create(mallory, config));
    expect(status).toBe("BROKEN");
    expect(reason).toContain("has the key ropeway:{portal}:mark");
  }
  expect(await redis.send(["DBSIZE"])).toBe(1);
  // A FLUSHALL removes the mark with the sessions. The next session brings it back.
  await redis.send(["FLUSHALL"]);
  const account = await stage.users.get("admin");
  if (account === undefined) throw new Error("no admin");
  const life = { idleMs: 60_000, maxMs: 60_000 };
  await new AccessStore(redis, stage.keys, store).openSession("rws_x", account, life);
  expect(await redis.send(["EXISTS", stage.keys.mark()])).toBe(1);
}, 60_000);

test("a task of somebody who is no admin does not use a cluster that keeps the accounts", async () => {
  await using cluster = await startCluster();
  await using redis = await connect(cluster.url);
  await using store = openRedisStore(redis);
  await store.put("/tasks/user/admin", "{}");
  const config = { from: evil.url, to: cluster.url, mode: "stock" };
  const { status, reason } = await endOf(await create(mallory, config));
  expect(status).toBe("BROKEN");
  expect(reason).toContain("has the key {ropeway:store}:@state");
}, 60_000);

test("an admin's task may, until somebody else gives it another configuration", async () => {
  await theirs.send(["FLUSHALL"]);
  await theirs.send(["SET", "harmless", "1"]);
  const config = { from: evil.url, to: stage.server.url, mode: "stock" };
  const task = await create(admin, config);
  expect(await endOf(task)).toMatchObject({ status: "FINISH" });
  expect(await stage.redis.send(["GET", "harmless"])).toBe("1");
  const body = { config: { ...config, lanes: 1 } };
  const edited = await stage.ask(`/api/tasks/${task.id}`, {
    ...{ method: "PATCH", headers: mallory, body },
  });
  expect(edited.status).toBe(200);
  await stage.ask(`/api/tasks/${task.id}/start`, { method: "POST", headers: mallory });
  await eventually(async () => expect((await endOf(task)).status).toBe("BROKEN"));
}, 60_000);

test.each([
  ["permissions", { permissions: ["task:edit", "task:operate"] }],
  ["groups", { groups: ["team-a"] }],
])(
  "a token of an admin that is limited to %s is no admin",
  async (_, limits) => {
    const body = { name: "ci", ...limits };
    const made = await stage.ask("/api/tokens", { method: "POST", headers: admin, body });
    const { token } = (await made.json()) as { token: string };
    const config = { from: evil.url, to: stage.server.url, mode: "stock" };
    const task = await create({ authorization: `Bearer ${token}` }, config);
    expect(await endOf(task)).toMatchObject({ status: "BROKEN" });
  },
  60_000,
);

test("files and folders of a node are for admins", async () => {
  const { url } = evil;
  for (const [field, config] of [
    ["from", { from: "file:/var/lib/redis/dump.rdb", to: url }],
    ["to", { from: url, to: "FILE:/tmp/appendonly.aof" }],
    ["to", { from: url, to: "file:/tmp/appendonly.aof" }],
    ["spoolDir", { from: url, to: "redis://127.0.0.1:1", spoolDir: "/etc" }],
  ] as const) {
    const body = { name: `file ${count++}`, group: "team-a", config };
    const answer = await stage.ask("/api/tasks", { method: "POST", headers: mallory, body });
    expect(answer.status).toBe(400);
    expect((await problemOf(answer)).errors).toMatchObject([{ pointer: `/body/config/${field}` }]);
  }
});

test("HTTP addresses that a node can reach, and targets of scripted tasks, are for admins", async () => {
  const { url } = evil;
  const metadata = "http://169.254.169.254/latest/meta-data/";
  for (const [type, field, config] of [
    ["sync", "from", { from: metadata, to: url }],
    ["sync", "from", { from: "HTTPS://ann:top-secret@127.0.0.1/x", to: url }],
    ["scripted", "target", { target: stage.server.url }],
    ["scripted", "target", { target: "redis://ann:top-secret@127.0.0.1:1" }],
  ] as const) {
    const body = { name: `reach ${count++}`, type, group: "team-a", config };
    const answer = await stage.ask("/api/tasks", { method: "POST", headers: mallory, body });
    const problem = await problemOf(answer);
    expect(problem).toMatchObject({ status: 400 });
    expect(problem.errors).toMatchObject([{ pointer: `/body/config/${field}` }]);
    expect(JSON.stringify(problem)).not.toContain("top-secret");
  }
  const body = { name: "download", group: "team-a", config: { from: metadata, to: url } };
  const made = await stage.ask("/api/tasks", { method: "POST", headers: admin, body });
  expect(made.status).toBe(201);
  const { id } = (await made.json()) as View;
  const edit = { config: { from: `${metadata}iam`, to: url } };
  const edited = await stage.ask(`/api/tasks/${id}`, {
    ...{ method: "PATCH", headers: mallory, body: edit },
  });
  expect(edited.status).toBe(400);
});

test("repeating a request does not show a task that is in another group by now", async () => {
  const headers = { ...mallory, "idempotency-key": "mine" };
  const config = { from: evil.url, to: "redis://127.0.0.1:1" };
  const body = { name: "moved away", group: "team-a", config };
  const first = await stage.ask("/api/tasks", { method: "POST", headers, body });
  const { id } = (await first.json()) as View;
  const moved = { method: "PATCH", headers: admin, body: { group: "team-b" } };
  expect((await stage.ask(`/api/tasks/${id}`, moved)).status).toBe(200);
  const again = await stage.ask("/api/tasks", { method: "POST", headers, body });
  expect(again.status).toBe(404);
  expect(await again.text()).not.toContain("team-b");
});
