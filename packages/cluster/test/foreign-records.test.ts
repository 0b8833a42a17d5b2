/** Keys and records that other programs left under our paths: none of them stops an inspection or a node. */
import { eventually } from "@ropeway/testkit";
import { afterAll, describe, expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { keys, lastPart } from "../src/keys.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import { rangeAll } from "../src/record.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import type { Store } from "../src/store/store.ts";
import { taskOperations } from "../src/tasks/indexes.ts";
import type { Task } from "../src/tasks/task.ts";
import { etcdStage, stages } from "./stage.fixture.ts";
import { collect } from "./store.conformance.ts";

const secrets = new SecretBox("00".repeat(32));
const long = (length: number) => "x".repeat(length);

/** A task that runs on a node which is gone. */
async function abandoned(cluster: Cluster, store: Store, nodeId: string): Promise<string> {
  const wish = { name: `z ${nodeId}`, type: "scripted", config: {}, immortal: true };
  const { task } = await cluster.tasks.create(wish);
  const running: Task = { ...task, nodeId, status: "COMMANDRUNNING", desired: "run", epoch: 1 };
  await store.txn({ do: taskOperations(task, running) });
  return task.taskId;
}

/** Inspections go on, and move the tasks of a node that is gone to one that is there. */
async function expectTakeOver(
  store: Store,
  nodeId: string,
  prepare: (taskId: string) => Promise<unknown> = async () => {},
): Promise<void> {
  const cluster = new Cluster(store, { secrets });
  const id = `alive_${nodeId}`;
  const lasting = { secrets, runners: [scriptedRunner()], leaseMs: 5_000, reportMs: 200 };
  await using _node = await new ClusterNode(store, { id, address: "", ...lasting }).start();
  const taskId = await abandoned(cluster, store, nodeId);
  await prepare(taskId);
  const often = { everyMs: 100, probes: 1, leaseMs: 1_000, brakeMs: 0 };
  const inspector = cluster.inspector({ id: `portal_${nodeId}`, address: "", ...often });
  let rounds = 0;
  inspector.on("inspected", () => {
    rounds += 1;
  });
  await using _inspector = await inspector.start();
  const withinMs = { withinMs: 20_000 };
  await eventually(
    async () =>
      expect(await cluster.tasks.get(taskId)).toMatchObject({
        nodeId: id,
        status: "COMMANDRUNNING",
      }),
    withinMs,
  );
  const before = rounds;
  await eventually(() => expect(rounds).toBeGreaterThan(before + 4), withinMs);
  await eventually(async () => {
    expect((await cluster.nodes.list()).items.map(({ nodeid }) => nodeid)).toContain(id);
    expect((await cluster.tasks.list()).items.map((task) => task.taskId)).toContain(taskId);
  }, withinMs);
}

describe.each(stages)("on %s", async (name, make) => {
  const stage = await make();
  afterAll(() => stage.close());
  const store = await stage.open();
  const record = (taskId: string, odd: object) => ({
    ...{
      taskId,
      groupId: "g",
      nodeId: "dead_odd",
      taskName: taskId,
      type: "scripted",
      md5: taskId,
    },
    ...{ status: "COMMANDRUNNING", desired: "run", immortal: true, epoch: 1, ...odd },
  });
  const odd: [string, unknown][] = [
    [`/tasks/node/${long(1_006)}/t`, {}],
    [`/tasks/event/${long(1_011)}`, {}],
    [`/tasks/bigkey/${long(1_010)}`, {}],
    ["/nodes/redissyncer/z/alive_dead_odd", { nodeid: "alive_dead_odd", online: false }],
    ["/inspect/drain/z/alive_dead_odd", { nodeId: "alive_dead_odd" }],
    ["/tasks/alert/a", { id: "a", kind: "brake", cause: 5, resolvedAt: null, sentAt: null }],
    ["/tasks/alert/b", { id: "b", kind: "task-broken", cause: {}, resolvedAt: null, count: "1" }],
  ];
  const tasks = [
    record("a_type", { type: "\u6c49".repeat(390) }),
    record("a_group", { groupId: "\u6c49".repeat(390) }),
    record(long(1_000), {}),
    record("a_large", { config: { list: long(999_000) } }),
  ];

  it("moves the tasks of a node that is gone beside records that cannot be changed", async () => {
    for (const [key, value] of odd) await store.put(key, JSON.stringify(value));
    for (const task of tasks) {
      await store.put(keys.task(task.taskId), JSON.stringify(task));
      await store.put(keys.ofNode("dead_odd", task.taskId.slice(0, 990)), "{}");
    }
    await expectTakeOver(store, "dead_odd");
    for (const [key] of odd) expect(await store.get(key), name).toBeDefined();
  });

  it("moves a task whose owner key has no lease and would never end", async () => {
    await expectTakeOver(store, "dead_owned", (id) => store.put(keys.owner(id), "{}"));
  });

  it.each(["x", 1e300, 8.64e15 + 1, -1, null])(
    "gives every list a time that a date can name, also where a record has %j",
    async (time) => {
      const cluster = new Cluster(store, { secrets });
      const wish = { name: `time ${time}`, type: "scripted", config: {} };
      const { taskId } = (await cluster.tasks.create(wish)).task;
      const put = async (key: string, more: object) => {
        const entry = await store.get(key);
        await store.put(key, JSON.stringify({ ...JSON.parse(entry?.value ?? "{}"), ...more }));
      };
      const node = keys.node("redissyncer", "node_time");
      await put(keys.task(taskId), { createTime: time, updateTime: time });
      await put(keys.event(taskId, "e"), { at: time, event: 5 });
      await put(keys.bigKey(taskId, "k"), { at: time, key: 5 });
      await put(keys.offset(taskId), { at: time, db: "none", epoch: null });
      await put(node, { nodeid: "node_time", lastreporttime: time });
      await cluster.alerts.raise({ kind: "brake", cause: wish.name, text: "", subject: "" });
      const alert = [...(await cluster.alerts.open()).values()].find(
        ({ cause }) => cause === wish.name,
      );
      await put(keys.alert(alert?.id ?? ""), { raisedAt: time, acknowledgedAt: time });
      expect(await cluster.tasks.offset(taskId)).toMatchObject({ db: 0, epoch: 0 });
      const task = await cluster.tasks.get(taskId);
      const [seen] = (await cluster.tasks.records.page("bigKeys", taskId, {})).items;
      const times = [
        ...[task.createTime, task.updateTime, seen?.at, (await cluster.tasks.offset(taskId)).at],
        ...(await cluster.tasks.records.events(taskId)).map(({ at }) => at),
        (await cluster.nodes.get("node_time")).lastreporttime,
        (await cluster.alerts.get(alert?.id ?? "")).raisedAt,
        (await cluster.alerts.get(alert?.id ?? "")).acknowledgedAt ?? 0,
      ];
      for (const one of times) expect(() => new Date(one as number).toISOString()).not.toThrow();
      expect(times.filter((one) => one !== 0)).toHaveLength(1); // the event of its creation
      expect(seen).toMatchObject({ key: "", command: "" });
      await cluster.tasks.remove(taskId);
    },
  );
});

describe("on an etcd that other programs use", async () => {
  const stage = await etcdStage();
  afterAll(() => stage.close());
  const store = await stage.open();
  const base64 = (bytes: Buffer | string) => Buffer.from(bytes as string).toString("base64");
  const put = (key: Buffer, value: string) =>
    stage.etcd.first.call("/v3/kv/put", { key: base64(key), value: base64(value) });
  const names = [Buffer.from(long(3_000)), Buffer.from("a\0b"), Buffer.of(0x61, 0xff, 0xfe)];
  const under = (place: string) => names.map((one) => Buffer.concat([Buffer.from(place), one]));

  it("leaves out keys that are no paths, in lists, pages and watches", async () => {
    const { revision } = await store.status();
    const seen = collect(store, "/foreign/", revision + 1);
    await store.put("/foreign/a", "1");
    for (const key of under("/foreign/")) await put(key, "foreign");
    await store.put("/foreign/b", "2");
    await store.put("/foreign/z", "3");
    const ours = ["/foreign/a", "/foreign/b", "/foreign/z"];
    const pages: string[] = [];
    for (let after: string | undefined, more = true; more; ) {
      const page = await store.range("/foreign/", { limit: 1, after });
      pages.push(...page.entries.map(({ key }) => key));
      [after, more] = [page.entries.at(-1)?.key, page.more && page.entries.length > 0];
    }
    expect(pages).toEqual(ours);
    expect((await rangeAll(store, "/foreign/")).entries.map(({ key }) => key)).toEqual(ours);
    await eventually(() => expect(seen.events.map(({ entry }) => entry.key)).toEqual(ours));
    await seen.stop();
  });

  it("inspects, and runs tasks, whatever they wrote under our paths", async () => {
    const places = [
      ...[keys.tasksOfNodes, keys.tasksOfNode("dead_raw"), keys.tasksOfNode("alive_dead_raw")],
      ...[keys.drains, keys.tasksOfStatus("CREATED"), keys.tasksOfStatus("BROKEN"), keys.tasks],
      ...[keys.eventsOfAll, keys.bigKeysOfAll, keys.discardedOfAll, keys.alerts, keys.requests],
      ...[keys.nodes("redissyncer"), keys.nodes("portal"), keys.owners],
    ];
    for (const place of places) {
      for (const key of under(place)) {
        await put(key, JSON.stringify({ nodeid: lastPart(String(key)), online: true, at: 1 }));
      }
    }
    await expectTakeOver(store, "dead_raw");
  });
});
