/** A cluster in one process: registration, task life, placement, take-over; on both stores. */
import { setTimeout as pause } from "node:timers/promises";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { keys } from "../src/keys.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import type { NodeOptions } from "../src/options.ts";
import { rangeAll } from "../src/record.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import type { Store } from "../src/store/store.ts";
import { type Stage, stages } from "./stage.fixture.ts";

const secrets = new SecretBox("00".repeat(32));

describe.each(stages)("a cluster on %s", (_, make) => {
  let stage: Stage;
  let store: Store;
  let cluster: Cluster;
  beforeAll(async () => {
    stage = await make();
    store = await stage.open();
    cluster = new Cluster(store, { secrets });
  }, 60_000);
  afterAll(() => stage?.close());

  const node = async (id: string, options: Partial<NodeOptions> = {}) =>
    new ClusterNode(await stage.open(), {
      id,
      address: "http://127.0.0.1:9",
      runners: [scriptedRunner()],
      secrets,
      leaseMs: 2_000,
      reportMs: 200,
      progressMs: 100,
      ...options,
    });
  const statusOf = async (id: string) => (await cluster.tasks.get(id)).status;
  const becomes = (id: string, status: string, withinMs = 8_000) =>
    eventually(async () => expect(await statusOf(id)).toBe(status), { withinMs });
  let count = 0;
  const create = async (options: object = {}) => {
    const name = `task ${++count}`;
    const wish = { name, type: "scripted", config: {}, ...options };
    return (await cluster.tasks.create(wish)).task;
  };

  it("refuses a node id that is online, and takes it when the first has left", async () => {
    const first = await (await node("node_same", { address: "http://127.0.0.1:4711" })).start();
    const second = await node("node_same");
    await expect(second.start()).rejects.toMatchObject({
      code: "NODE_ID_TAKEN",
      message: expect.stringContaining("127.0.0.1:4711"),
    });
    await first.close();
    await second.start();
    await second.close();
    expect((await rangeAll(store, keys.nodes("redissyncer"))).entries).toEqual([]);
  });

  it("takes the id of a node that crashed when its lease has ended, and not before", async () => {
    const { id: lease } = await store.grant(2_000);
    const key = keys.node("redissyncer", "node_crashed");
    const record = { nodeid: "node_crashed", online: true, nodeaddr: "10.0.0.7", nodeport: 4712 };
    await store.put(key, JSON.stringify(record), lease);
    const tries: string[] = [];
    await eventually(
      async () => {
        const heir = await node("node_crashed");
        await heir.start().catch((error: Error) => {
          tries.push(error.message);
          throw error;
        });
        await heir.close();
      },
      { withinMs: 20_000 },
    );
    expect(tries.length).toBeGreaterThan(0);
    for (const text of tries) expect(text).toContain("online at 10.0.0.7:4712");
  });

  it("runs a task from create to stop, and again", async () => {
    await using one = await (await node("node_1")).start();
    const task = await create({ start: true });
    await becomes(task.taskId, "COMMANDRUNNING");
    expect(one.running).toBe(1);
    const running = await cluster.tasks.get(task.taskId);
    expect(running.epoch).toBe((await store.get(keys.owner(task.taskId)))?.createRevision);
    await expect(cluster.tasks.start(task.taskId)).rejects.toMatchObject({
      code: "ILLEGAL_TRANSITION",
      message: expect.stringMatching(/COMMANDRUNNING.*STARTING/),
    });
    await expect(cluster.tasks.remove(task.taskId)).rejects.toMatchObject({
      code: "ILLEGAL_TRANSITION",
    });
    await cluster.tasks.stop(task.taskId);
    await becomes(task.taskId, "STOP");
    expect(await store.get(keys.owner(task.taskId))).toBeUndefined();
    await expect(cluster.tasks.stop(task.taskId)).rejects.toMatchObject({
      code: "ILLEGAL_TRANSITION",
    });
    await cluster.tasks.start(task.taskId);
    await becomes(task.taskId, "COMMANDRUNNING");
    const again = await cluster.tasks.get(task.taskId);
    expect(again.epoch).toBeGreaterThan(running.epoch);
    expect(again.afresh).toBe(false);
    await cluster.tasks.stop(task.taskId);
    await becomes(task.taskId, "STOP");
    await cluster.tasks.remove(task.taskId);
    await expect(cluster.tasks.get(task.taskId)).rejects.toMatchObject({ code: "UNKNOWN_TASK" });
    const left = await rangeAll(store, "/tasks/");
    expect(left.entries.map(({ key }) => key).filter((key) => key.includes(task.taskId))).toEqual(
      [],
    );
  });

  it("tells apart a task that is done, one that failed, and one without a node", async () => {
    const waiting = await create({ start: true });
    expect(waiting).toMatchObject({
      status: "CREATED",
      reason: "no node is registered",
      nodeId: "",
    });
    await using _one = await (await node("node_2")).start();
    const done = await create({ start: true, config: { runMs: 50 } });
    const failed = await create({ start: true, config: { failAfterMs: 50 } });
    await becomes(done.taskId, "FINISH");
    await becomes(failed.taskId, "BROKEN");
    expect((await cluster.tasks.get(failed.taskId)).reason).toMatch(/fails after 50 ms/);
    await cluster.tasks.start(failed.taskId);
    await becomes(failed.taskId, "BROKEN");
    await cluster.tasks.stop(waiting.taskId);
    await becomes(waiting.taskId, "STOP");
    const events = await cluster.tasks.records.events(done.taskId);
    expect(events.map(({ event }) => event)).toEqual([
      "created",
      "running",
      "COMMANDRUNNING",
      "FINISH",
    ]);
  });

  it("refuses the same name, repeats the same request, and refuses a reused key", async () => {
    const wish = { name: "twin", type: "scripted", config: { runMs: 1 }, idempotencyKey: "k1" };
    const [first, second] = await Promise.all([
      cluster.tasks.create(wish),
      cluster.tasks.create(wish),
    ]);
    expect(first.task.taskId).toBe(second.task.taskId);
    expect([first.repeated, second.repeated].sort()).toEqual([false, true]);
    await expect(
      cluster.tasks.create({ ...wish, idempotencyKey: undefined }),
    ).rejects.toMatchObject({ code: "DUPLICATE_TASK", details: { field: "name" } });
    await expect(cluster.tasks.create({ ...wish, config: { runMs: 2 } })).rejects.toMatchObject({
      code: "IDEMPOTENCY_KEY_REUSED",
    });
  });

  it("edits only what is at rest, and keeps every index in step", async () => {
    const task = await create();
    await cluster.tasks.edit(task.taskId, { name: "renamed", group: "g1", immortal: true });
    const page = await cluster.tasks.list({ group: "g1" });
    expect(page.items.map(({ taskName }) => taskName)).toEqual(["renamed"]);
    expect(await store.get(keys.ofName(task.taskName))).toBeUndefined();
    expect((await cluster.tasks.list({ name: "renamed" })).items).toHaveLength(1);
    await expect(cluster.tasks.edit(task.taskId, { name: "twin" })).rejects.toMatchObject({
      code: "DUPLICATE_TASK",
    });
    await cluster.tasks.remove(task.taskId);
  });

  it("pages through tasks that come and go, each exactly once", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 23; n++) ids.push((await create({ group: "pages" })).taskId);
    const other = new Cluster(await stage.open(), { secrets });
    const seen: string[] = [];
    for (let cursor: string | undefined, page = 0; ; page++) {
      const reader = page % 2 === 0 ? cluster : other;
      const found = await reader.tasks.list({ group: "pages", limit: 5, cursor });
      seen.push(...found.items.map(({ taskId }) => taskId));
      const gone = found.items[0];
      if (gone !== undefined) await cluster.tasks.remove(gone.taskId);
      cursor = found.cursor;
      if (cursor === undefined) break;
    }
    expect(seen).toEqual([...ids].sort());
    await expect(cluster.tasks.list({ cursor: "%%" })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });

  it("hands a running task over, and empties a drained node", async () => {
    await using one = await (await node("node_a1")).start();
    const task = await create({ start: true });
    await becomes(task.taskId, "COMMANDRUNNING");
    await using two = await (await node("node_a10")).start();
    const before = await cluster.tasks.get(task.taskId);
    await cluster.tasks.move(task.taskId, "node_a10");
    await eventually(async () => {
      const now = await cluster.tasks.get(task.taskId);
      expect(now).toMatchObject({ nodeId: "node_a10", status: "COMMANDRUNNING" });
      expect(now.epoch).toBeGreaterThan(before.epoch);
    });
    await eventually(() => expect([one.running, two.running]).toEqual([0, 1]));
    expect((await cluster.tasks.list({ node: "node_a1" })).items).toEqual([]);
    await cluster.nodes.drain("node_a10");
    await eventually(() => expect([one.running, two.running]).toEqual([1, 0]));
    await expect(cluster.tasks.move(task.taskId, "node_none")).rejects.toMatchObject({
      code: "UNKNOWN_NODE",
    });
    await cluster.nodes.undrain("node_a10");
    await cluster.tasks.stop(task.taskId);
    await becomes(task.taskId, "STOP");
  });

  it("takes no new task while it is paused", async () => {
    const one = await node("node_p");
    await one.pause();
    await one.start();
    const task = await create({ start: true });
    await pause(600);
    expect(await statusOf(task.taskId)).toBe("CREATING");
    await one.resume();
    await becomes(task.taskId, "COMMANDRUNNING");
    await cluster.tasks.stop(task.taskId);
    await becomes(task.taskId, "STOP");
    await one.close();
  });

  it("tries the next node when one is full", async () => {
    await using _full = await (await node("node_b1", { maxTasks: 1 })).start();
    const first = await create({ start: true });
    const second = await create({ start: true });
    await becomes(first.taskId, "COMMANDRUNNING");
    await using inspector = cluster.inspector({ id: "portal_b", address: "", everyMs: 200 });
    await inspector.start();
    await eventually(async () =>
      expect((await cluster.tasks.get(second.taskId)).reason).toMatch(/room|full/),
    );
    await using _empty = await (await node("node_b2")).start();
    await becomes(second.taskId, "COMMANDRUNNING");
    expect((await cluster.tasks.get(second.taskId)).nodeId).toBe("node_b2");
    for (const { taskId } of [first, second]) {
      await cluster.tasks.stop(taskId);
      await becomes(taskId, "STOP");
    }
  });

  it("moves what is immortal when a node dies, breaks the rest, and leaves STOP alone", async () => {
    const victim = await (await node("node_c1", { address: "http://127.0.0.1:1" })).start();
    const immortal = await create({ start: true, immortal: true });
    const mortal = await create({ start: true });
    const stopped = await create({ start: true });
    for (const { taskId } of [immortal, mortal, stopped]) await becomes(taskId, "COMMANDRUNNING");
    await cluster.tasks.stop(stopped.taskId);
    await becomes(stopped.taskId, "STOP");
    await using _heir = await (await node("node_c2")).start();
    const inspecting = { address: "", everyMs: 200, probeEveryMs: 50, leaseMs: 2_000 };
    await using one = cluster.inspector({ id: "portal_c1", ...inspecting });
    await using two = new Cluster(await stage.open(), { secrets }).inspector({
      id: "portal_c2",
      ...inspecting,
    });
    await Promise.all([one.start(), two.start()]);
    await pause(2_500); // the portals have just met the store; nothing is moved in that time
    // A death without a word: the store ends the lease, nobody runs the node's code.
    const lease = (await store.get(keys.node("redissyncer", "node_c1")))?.lease ?? "";
    const epoch = (await cluster.tasks.get(immortal.taskId)).epoch;
    const closing = victim.close.bind(victim);
    await store.revoke(lease);
    const frozen = await node("node_c1"); // keeps the old process from coming back under its id
    void frozen;
    await eventually(
      async () => {
        const moved = await cluster.tasks.get(immortal.taskId);
        expect(moved.status).toBe("COMMANDRUNNING");
        expect(moved.epoch).toBeGreaterThan(epoch);
      },
      { withinMs: 15_000 },
    );
    await becomes(mortal.taskId, "BROKEN", 15_000);
    expect(await statusOf(stopped.taskId)).toBe("STOP");
    await eventually(async () => {
      const { items } = await cluster.alerts.list();
      expect(items.filter(({ subject }) => subject === mortal.taskId)).toHaveLength(1);
    });
    await closing();
    await cluster.tasks.stop(immortal.taskId);
    await becomes(immortal.taskId, "STOP");
  }, 40_000);
});
