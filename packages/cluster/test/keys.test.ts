/** Every documented path, read past our own client with etcd's JSON gateway. */
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { ClusterIds } from "../src/ids.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import type { Runner } from "../src/runner.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import { faultyStore } from "./faulty-store.fixture.ts";
import { etcdStage } from "./stage.fixture.ts";

const secrets = new SecretBox("22".repeat(32));
let stage: Awaited<ReturnType<typeof etcdStage>>;
beforeAll(async () => {
  stage = await etcdStage();
}, 60_000);
afterAll(() => stage.close());

/** A runner that says everything there is to say, and fails. */
const talkative: Runner = {
  type: "talkative",
  validate: (config) => config,
  async run(run) {
    run.bigKey({ key: "big", command: "split", type: "hash" });
    run.offset({ replId: "r", replOffset: "5", db: 2 });
    throw new Error("enough");
  },
};

const base64 = (text: string) => Buffer.from(text).toString("base64");

/** All keys with a prefix, as etcd has them. */
async function raw(prefix: string): Promise<Record<string, string>> {
  const end = `${prefix.slice(0, -1)}${String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)}`;
  const reply = await stage.etcd.first.call("/v3/kv/range", {
    key: base64(prefix),
    range_end: base64(end),
  });
  const kvs = (reply.kvs ?? []) as { key: string; value?: string; mod_revision: string }[];
  const text = (value: string | undefined) => Buffer.from(value ?? "", "base64").toString();
  return Object.fromEntries(kvs.map(({ key, value }) => [text(key), text(value)]));
}

it("writes a task and all its indexes under the documented paths, in one transaction", async () => {
  const store = await stage.open();
  const cluster = new Cluster(store, { secrets });
  const { task } = await cluster.tasks.create({
    name: "documented",
    type: "scripted",
    config: { target: "redis://user:hunter2@127.0.0.1:1" },
    local: true,
    group: "group_x",
  });
  const { taskId, md5 } = task;
  expect(taskId).toMatch(/^task_\d+_\d{13}_\d+$/);
  const found = await raw("/tasks/");
  const json = (key: string) => JSON.parse(found[key] ?? "null") as unknown;
  expect(json(`/tasks/taskid/${taskId}`)).toMatchObject({
    taskId,
    groupId: "group_x",
    nodeId: "",
    taskName: "documented",
    status: "CREATED",
    immortal: false,
    epoch: 0,
  });
  expect(json(`/tasks/groupid/group_x/${taskId}`)).toEqual({ groupId: "group_x", taskId });
  expect(json(`/tasks/status/CREATED/${taskId}`)).toEqual({ taskId });
  expect(json("/tasks/name/documented")).toEqual({ taskId });
  expect(json(`/tasks/type/scripted/${taskId}`)).toEqual({
    taskId,
    groupId: "group_x",
    nodeId: "",
  });
  expect(json(`/tasks/md5/${md5}`)).toEqual({ taskId, groupId: "group_x", nodeId: "" });
  expect(json(`/tasks/offset/${taskId}`)).toMatchObject({ replId: "", replOffset: "-1", epoch: 0 });
  expect(JSON.stringify(found)).not.toContain("hunter2");
  const revisions = await Promise.all(
    Object.keys(found).map(async (key) => (await store.get(key))?.modRevision),
  );
  expect(new Set(revisions).size).toBe(1);
});

it("keeps node 1 and node 10 apart in every index", async () => {
  const cluster = new Cluster(await stage.open(), { secrets });
  const nodes = await Promise.all(
    ["1", "10"].map(async (id) =>
      new ClusterNode(await stage.open(), {
        id,
        address: "http://127.0.0.1:9",
        runners: [scriptedRunner()],
        secrets,
        reportMs: 200,
      }).start(),
    ),
  );
  const { task } = await cluster.tasks.create({ name: "on ten", type: "scripted", config: {} });
  await cluster.tasks.move(task.taskId, "10");
  await cluster.tasks.start(task.taskId);
  await eventually(async () => {
    expect(Object.keys(await raw("/tasks/node/10/"))).toEqual([`/tasks/node/10/${task.taskId}`]);
    expect(Object.keys(await raw("/tasks/node/1/"))).toEqual([]);
    expect(Object.keys(await raw("/tasks/status/COMMANDRUNNING/"))).toHaveLength(1);
  });
  expect((await cluster.tasks.list({ node: "1" })).items).toEqual([]);
  expect((await cluster.tasks.list({ node: "10" })).items).toHaveLength(1);
  const record = JSON.parse(
    (await raw("/nodes/redissyncer/10"))["/nodes/redissyncer/10"] ?? "null",
  );
  expect(record).toMatchObject({
    nodetype: "redissyncer",
    nodeid: "10",
    nodeaddr: "127.0.0.1",
    nodeport: 9,
    online: true,
    load: { tasks: expect.any(Number) },
  });
  await nodes[0]?.close();
  expect((await cluster.tasks.get(task.taskId)).status).toBe("COMMANDRUNNING");
  await cluster.tasks.stop(task.taskId);
  await eventually(async () => expect((await cluster.tasks.get(task.taskId)).status).toBe("STOP"));
  await nodes[1]?.close();
});

it("writes nodes, inspections, alerts and records of keys under the documented paths", async () => {
  const store = await stage.open();
  const cluster = new Cluster(store, { secrets, runners: [talkative] });
  const from = (await store.status()).revision + 1;
  await using inspector = cluster.inspector({
    id: "portal_x",
    address: "http://127.0.0.1:7",
    everyMs: 200,
  });
  await inspector.start();
  const options = { id: "node_x", address: "http://127.0.0.1:8", runners: [talkative], secrets };
  await using node = new ClusterNode(store, options);
  await node.start();
  const wish = { name: "raw", type: "talkative", config: {}, start: true };
  const { taskId } = (await cluster.tasks.create(wish)).task;
  const json = async (key: string) => JSON.parse((await raw(key))[key] ?? "null") as unknown;
  await eventually(async () => {
    expect(Object.values(await raw("/tasks/alert/")).join()).toContain(`task-broken:${taskId}:`);
  });
  for (const [type, id, port] of [
    ["portal", "portal_x", 7],
    ["redissyncer", "node_x", 8],
  ] as const) {
    expect(await json(`/nodes/${type}/${id}`)).toMatchObject({
      ...{ nodetype: type, nodeid: id, nodeaddr: "127.0.0.1", nodeport: port, online: true },
      ...{ heartbeaturl: `http://127.0.0.1:${port}/healthz`, version: "" },
      ...{
        lastreporttime: expect.any(Number),
        load: { cpu: expect.any(Number), tasks: expect.any(Number) },
      },
    });
  }
  expect(await json(`/tasks/node/node_x/${taskId}`)).toMatchObject({ nodeId: "node_x", taskId });
  expect(await json(`/tasks/offset/${taskId}`)).toMatchObject({
    replId: "r",
    replOffset: "5",
    db: 2,
  });
  expect(await json(`/tasks/bigkey/${taskId}/big`)).toMatchObject({
    ...{ id: "big", taskId, key: "big", command: "split", command_type: "hash" },
  });
  expect(await json("/tasks/rdbversion/7.0/10")).toMatchObject({
    redis_version: "7.0",
    rdb_version: 10,
  });
  const { "/inspect/lastinspectiontime": last } = await raw("/inspect/");
  expect(last).toMatch(/^\d{13}$/);
  // The lock lives on a lease of its own, for the time of one round.
  const signal = AbortSignal.timeout(20_000);
  for await (const [event] of store.watch({ prefix: "/inspect/execlock", from, signal })) {
    expect(event?.type).toBe("put");
    expect(JSON.parse(event?.entry.value ?? "")).toEqual({ nodeId: "portal_x" });
    expect(event?.entry.lease).toBeDefined();
    break;
  }
}, 60_000);

it("takes one seed per process, by compare-and-swap, and counts from 1", async () => {
  const before = Number((await raw("/uniqid/idseed"))["/uniqid/idseed"] ?? 1);
  const sources = await Promise.all(
    Array.from({ length: 5 }, async () => new ClusterIds(await stage.open())),
  );
  const ids = (
    await Promise.all(sources.map((ids) => Promise.all([1, 2, 3].map(() => ids.next("task")))))
  ).flat();
  expect(new Set(ids).size).toBe(15);
  expect(new Set(ids.map((id) => id.split("_")[1])).size).toBe(5);
  expect(ids.filter((id) => id.endsWith("_1"))).toHaveLength(5);
  expect(Number((await raw("/uniqid/idseed"))["/uniqid/idseed"])).toBe(before + 5);
});

it("takes a seed later when the store was away at first", async () => {
  let faults = 1;
  const away = faultyStore(await stage.open(), () => (faults-- > 0 ? "lost" : undefined));
  const ids = new ClusterIds(away);
  await expect(ids.next("task")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(await ids.next("task")).toMatch(/^task_\d+_\d{13}_1$/);
});
