/** Requests that come twice, and two that want the same at the same moment, held where both believe to be the first. */
import { createHash } from "node:crypto";
import { silentLogger } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { RoundLock } from "../src/inspection/round-lock.ts";
import { TaskInspection } from "../src/inspection/task-inspection.ts";
import { keys } from "../src/keys.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import { Placement } from "../src/nodes/placement.ts";
import { rangeAll } from "../src/record.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import type { Transaction } from "../src/store/store.ts";
import { md5Of } from "../src/tasks/task.ts";
import { clusterForFile } from "./cluster-for-file.fixture.ts";
import { gatedStore } from "./gated-store.fixture.ts";

const secrets = new SecretBox("00".repeat(32));

const { stage, store, cluster, becomes } = await clusterForFile({ secrets });

describe("tasks that two want to change", () => {
  it("gives one idempotency key to one of two different requests that come at once", async () => {
    // Both have read that the key is new before one of them writes.
    let arrived = 0;
    let bothAreHere = () => {};
    const together = new Promise<void>((resolve) => {
      bothAreHere = resolve;
    });
    const gated = gatedStore(store, async (transaction) => {
      if (!transaction.do.some(({ key }) => key.startsWith(keys.requests))) return;
      if (++arrived === 2) bothAreHere();
      await together;
    });
    const both = new Cluster(gated, { secrets }).tasks;
    const names = ["first", "second"];
    const creating = names.map((name) =>
      both.create({ name, type: "scripted", config: {}, idempotencyKey: "shared" }),
    );
    const results = await Promise.allSettled(creating);
    expect(arrived).toBe(2);
    const refused = results.filter((one) => one.status === "rejected");
    expect(refused).toMatchObject([{ reason: { code: "IDEMPOTENCY_KEY_REUSED" } }]);
    const ids = await Promise.all(names.map((name) => cluster.tasks.idOfName(name)));
    expect(ids.filter((id) => id !== undefined)).toHaveLength(1);
  });

  it("keeps of a request with an idempotency key nothing that shows whether a password was guessed right", async () => {
    const config = { from: "redis://:guessable@127.0.0.1:1", to: "redis://127.0.0.1:2" };
    const body = { name: "with a password", type: "sync", config };
    const draft = { ...body, idempotencyKey: "with a password" };
    const { task } = await cluster.tasks.create(draft);
    const guess = createHash("sha256").update(JSON.stringify(body)).digest("hex").slice(0, 40);
    const stored = (await rangeAll(store, keys.requests)).entries.map(({ value }) => value);
    expect(stored.filter((value) => value.includes(task.taskId))).toHaveLength(1);
    expect(stored.join()).not.toContain(guess);
    // The same request is recognised, also after a new key was added, and another password is not.
    const rotated = new Cluster(store, {
      secrets: new SecretBox(`${"11".repeat(32)},${"00".repeat(32)}`),
    });
    expect(await rotated.tasks.create(draft)).toMatchObject({ repeated: true, task });
    const other = { ...draft, config: { ...config, from: "redis://:another@127.0.0.1:1" } };
    await expect(cluster.tasks.create(other)).rejects.toMatchObject({
      code: "IDEMPOTENCY_KEY_REUSED",
    });
  });

  it.each(["edit", "start", "stop", "remove"] as const)(
    "does not %s a task that has left the caller's groups meanwhile",
    async (verb) => {
      const wish = { name: `leaving ${verb}`, type: "scripted", config: {}, group: "mine" };
      const { taskId } = (await cluster.tasks.create(wish)).task;
      let isMoved = false;
      const gated = gatedStore(store, async (transaction) => {
        const changes = ({ op, key }: { op: string; key: string }) =>
          op !== "get" && key === keys.task(taskId);
        if (isMoved || !transaction.do.some(changes)) return;
        isMoved = true;
        await cluster.tasks.edit(taskId, { group: "theirs" });
      });
      const mine = new Cluster(gated, { secrets }).tasks.ofGroups(["mine"]);
      const changing = verb === "edit" ? mine.edit(taskId, { name: "taken" }) : mine[verb](taskId);
      await expect(changing).rejects.toMatchObject({ code: "UNKNOWN_TASK" });
      expect(isMoved).toBe(true);
      expect(await cluster.tasks.get(taskId)).toMatchObject({
        ...{ groupId: "theirs", taskName: wish.name, status: "CREATED", desired: "stop" },
      });
      await cluster.tasks.remove(taskId);
    },
  );

  it("does not claim a task whose owner key another has created at that moment", async () => {
    const wish = { name: "contested", type: "scripted", config: {} };
    const id = (await cluster.tasks.create(wish)).task.taskId;
    const lease = await store.grant(60_000);
    let foreign: number | undefined;
    let claims = 0;
    const contested = gatedStore(await stage.open(), async (transaction) => {
      if (!transaction.do.some(({ op, key }) => op === "put" && key === keys.owner(id))) return;
      if (claims++ === 0) foreign = await store.put(keys.owner(id), "{}", lease.id);
    });
    const runs: number[] = [];
    await using node = new ClusterNode(contested, {
      ...{ id: "node_late", address: "", runners: [scriptedRunner()], secrets },
      ...{ leaseMs: 5_000, reportMs: 200, progressMs: 100 },
    });
    node.on("run", (_, epoch) => runs.push(epoch));
    await node.start();
    await cluster.tasks.move(id, "node_late");
    await cluster.tasks.start(id);
    await eventually(() => expect(foreign).toBeDefined());
    await store.revoke(lease.id);
    await becomes(id, { status: "COMMANDRUNNING" });
    expect(claims).toBeGreaterThan(1);
    expect(runs).toHaveLength(1);
    expect(runs[0]).toBeGreaterThan(foreign ?? 0);
    await cluster.tasks.stop(id);
    await becomes(id, { status: "STOP" });
  });

  it.each<[string, (tasks: Cluster["tasks"], id: string) => Promise<unknown>]>([
    ["stop", (tasks, id) => tasks.stop(id)],
    ["move", (tasks, id) => tasks.move(id, "node_busy")],
    ["edit", (tasks, id) => tasks.edit(id, { immortal: true })],
  ])("does not give up because the run stores progress after every read: %s", async (verb, act) => {
    const wish = { name: `busy ${verb}`, type: "scripted", config: {}, start: true };
    await using _node = await new ClusterNode(await stage.open(), {
      ...{ id: "node_busy", address: "", runners: [scriptedRunner()], secrets },
      ...{ leaseMs: 10_000, progressMs: 60_000 },
    }).start();
    const id = (await cluster.tasks.create(wish)).task.taskId;
    await becomes(id, { status: "COMMANDRUNNING" });
    const progress = async () => store.put(keys.task(id), JSON.stringify(await read()));
    const read = async () => ({ ...(await cluster.tasks.get(id)), progress: { n: ++writes } });
    let writes = 0;
    const far = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        return async (...args: unknown[]) => {
          const result = await value.apply(target, args);
          const [asked] = args as [Partial<Transaction>];
          const reads = name === "get" || asked.do?.every(({ op }) => op === "get");
          if (reads) await progress();
          return result;
        };
      },
    });
    await act(new Cluster(far, { secrets }).tasks, id);
    expect(writes).toBeGreaterThan(0);
    if (verb !== "stop") await cluster.tasks.stop(id);
    await becomes(id, { status: "STOP" });
    await cluster.tasks.remove(id);
  });

  it("gives the id of a node that is offline to one of two processes", async () => {
    const key = keys.node("redissyncer", "node_twice");
    await store.put(key, JSON.stringify({ nodeid: "node_twice", online: false }));
    // Both have read that the node is offline before one of them writes.
    let arrived = 0;
    let bothAreHere = () => {};
    const together = new Promise<void>((resolve) => {
      bothAreHere = resolve;
    });
    const gated = gatedStore(await stage.open(), async (transaction) => {
      if (!transaction.do.some((one) => one.key === key)) return;
      if (++arrived === 2) bothAreHere();
      await together;
    });
    const nodes = [1, 2].map(
      () =>
        new ClusterNode(gated, {
          ...{ id: "node_twice", address: "", runners: [scriptedRunner()], secrets },
          ...{ leaseMs: 10_000, reportMs: 60_000 },
        }),
    );
    const results = await Promise.allSettled(nodes.map((node) => node.start()));
    const refused = results.filter((one) => one.status === "rejected");
    expect(refused).toMatchObject([{ reason: { code: "NODE_ID_TAKEN" } }]);
    for (const node of nodes) await node.close();
  });

  it("gives no task to a node that is drained at that moment", async () => {
    await using node = await new ClusterNode(await stage.open(), {
      ...{ id: "node_drains", address: "", runners: [scriptedRunner()], secrets },
      ...{ leaseMs: 10_000, reportMs: 60_000 },
    }).start();
    const gated = gatedStore(store, async ({ do: operations }) => {
      const placed = operations.some(({ key }) => key.startsWith(keys.tasksOfNode(node.id)));
      if (placed) await store.put(keys.drain(node.id), "{}");
    });
    const { tasks } = new Cluster(gated, { secrets });
    const wish = { name: "drained", type: "scripted", config: {}, start: true };
    const { task } = await tasks.create(wish);
    expect(task).toMatchObject({ status: "CREATED", nodeId: "" });
    await store.delete(keys.drain(node.id));
    await tasks.stop(task.taskId);
    const started = await tasks.start(task.taskId);
    expect(started).toMatchObject({ status: "CREATED", nodeId: "" });
    await store.delete(keys.drain(node.id));
    const lock = await RoundLock.take(store, "portal_p", { seen: undefined, logger: silentLogger });
    if (lock === undefined) throw new Error("no round");
    const { alerts } = cluster;
    const plan = { store: gated, alerts, placement: new Placement(store), guard: lock.guard };
    await new TaskInspection(plan).placeWaiting(undefined);
    expect(await store.get(keys.drain(node.id))).toBeDefined();
    expect(await tasks.get(task.taskId)).toMatchObject({ status: "CREATED", nodeId: "" });
    await lock.abandon();
    await store.delete(keys.drain(node.id));
    await tasks.stop(task.taskId);
    await tasks.remove(task.taskId);
  });

  it("edits no task into one that is known already under its md5", async () => {
    const wish = { name: "edited", type: "scripted", config: {} };
    const id = (await cluster.tasks.create(wish)).task.taskId;
    const config = { everyMs: 100, runMs: 5 };
    const holder = keys.ofMd5(md5Of("scripted", "edited", config));
    await store.put(holder, JSON.stringify({ taskId: "task_other" }));
    const duplicate = { code: "DUPLICATE_TASK", details: { field: "md5" } };
    await expect(cluster.tasks.edit(id, { config })).rejects.toMatchObject(duplicate);
    // The holder comes after the edit has looked for one.
    await store.delete(holder);
    const gated = gatedStore(store, async ({ do: operations }) => {
      const edit = operations.some(({ op, key }) => op === "put" && key === keys.task(id));
      if (edit) await store.put(holder, JSON.stringify({ taskId: "task_other" }));
    });
    const late = new Cluster(gated, { secrets }).tasks.edit(id, { config });
    await expect(late).rejects.toMatchObject(duplicate);
    expect(await store.get(holder)).toMatchObject({ value: expect.stringContaining("task_other") });
  });
});
