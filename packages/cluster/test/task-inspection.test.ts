/** What a round does about tasks and nodes that are in an unusual state. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { silentLogger } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { RoundLock } from "../src/inspection/round-lock.ts";
import { TaskInspection } from "../src/inspection/task-inspection.ts";
import { keys } from "../src/keys.ts";
import { HealthServer } from "../src/nodes/health-server.ts";
import { Placement } from "../src/nodes/placement.ts";
import { Registration } from "../src/nodes/registration.ts";
import { putRecord } from "../src/record.ts";
import type { Transaction } from "../src/store/store.ts";
import { taskOperations } from "../src/tasks/indexes.ts";
import type { Task } from "../src/tasks/task.ts";
import { clusterForFile } from "./cluster-for-file.fixture.ts";

const { store, cluster, becomes } = await clusterForFile();

describe("an inspection", () => {
  let names = 0;
  const create = async (options: object = {}) => {
    const wish = { name: `t${++names}`, type: "scripted", config: {}, ...options };
    return (await cluster.tasks.create(wish)).task;
  };
  /** A task in a state that nobody has brought about. */
  const taskIn = async (state: Partial<Task>): Promise<string> => {
    const task = await create();
    await store.txn({ do: taskOperations(task, { ...task, epoch: 1, ...state }) });
    return task.taskId;
  };
  const register = (id: string, address = "") =>
    Registration.open({
      store,
      ...{ type: "redissyncer", id, address, version: "", types: ["scripted"] },
      ...{ leaseMs: 60_000, reportMs: 60_000, maxTasks: 5_000 },
      ...{ logger: silentLogger, tasks: () => 0 },
    } as const);
  const inspect = (id: string, options: object = {}) =>
    cluster
      .inspector({ id, address: "", everyMs: 100, probeEveryMs: 10, leaseMs: 1_000, ...options })
      .start();
  const remove = (...ids: string[]) => Promise.all(ids.map((id) => cluster.tasks.remove(id)));

  it.each([
    ["COMMANDRUNNING", "run", { status: "CREATED", nodeId: "", desired: "run" }],
    ["CREATING", "run", { status: "CREATED", nodeId: "", desired: "run" }],
    ["CREATING", "stop", { status: "STOP", desired: "stop" }],
    ["RDBRUNNING", "stop", { status: "STOP", desired: "stop" }],
  ] as const)(
    "does not leave a task as %s that should %s when its node is gone and there is no other",
    async (status, desired, expected) => {
      const nodeId = "node_gone";
      const id = await taskIn({ status, desired, nodeId, immortal: true });
      await using _inspector = await inspect("portal_none");
      await becomes(id, expected);
      if (desired === "run") {
        expect((await cluster.tasks.get(id)).reason).toMatch(/^no node is (registered|online)$/);
        const node = await register("node_late");
        await becomes(id, { status: "CREATING", nodeId: "node_late", reason: "" });
        await cluster.tasks.stop(id);
        await node.close();
      }
      await remove(id);
      await cluster.nodes.forget(nodeId);
    },
    30_000,
  );

  it("changes nothing about a task at rest when its node is gone", async () => {
    const nodeId = "node_rest";
    const ends = ["STOP", "FINISH", "BROKEN"] as const;
    const ids = await Promise.all(
      ends.map((status) => taskIn({ status, desired: "stop", nodeId, immortal: true })),
    );
    const running = await taskIn({
      status: "COMMANDRUNNING",
      desired: "run",
      nodeId,
      immortal: false,
    });
    const before = await Promise.all(ids.map((id) => store.get(keys.task(id))));
    await using _inspector = await inspect("portal_rest");
    await becomes(running, { status: "BROKEN", reason: `node ${nodeId} is offline` });
    expect(await Promise.all(ids.map((id) => store.get(keys.task(id))))).toEqual(before);
    await remove(...ids, running);
    await cluster.nodes.forget(nodeId);
  }, 30_000);

  it("places a task that waits behind a thousand that nobody has started", async () => {
    const idle = await Promise.all(Array.from({ length: 1_010 }, () => create()));
    const waiting = await create({ start: true });
    expect(waiting).toMatchObject({ status: "CREATED", nodeId: "" });
    const node = await register("node_room");
    await using _inspector = await inspect("portal_room");
    await becomes(waiting.taskId, { status: "CREATING", nodeId: "node_room" });
    await cluster.tasks.stop(waiting.taskId);
    await remove(waiting.taskId);
    await node.close();
    for (let at = 0; at < idle.length; at += 50) {
      await remove(...idle.slice(at, at + 50).map(({ taskId }) => taskId));
    }
  }, 120_000);

  it.each([
    ["a name with a control character", { taskName: "a\u0000b" }],
    ["a name that is too long for a path", { taskName: "n".repeat(2_000) }],
    ["a group that is too long for a path", { groupId: "g".repeat(2_000) }],
    ["a type that is too long for a path", { type: "t".repeat(2_000) }],
    ["a digest that is too long for a path", { md5: "m".repeat(2_000) }],
    ["a reason that fills the record", { reason: "r".repeat(900_000) }],
  ])("goes on when a task of another program has %s", async (_, strange) => {
    const gone = { nodeId: "node_dead", status: "COMMANDRUNNING", desired: "run" } as const;
    const task = await create();
    const record = { ...task, ...gone, immortal: true, ...strange };
    await store.txn({
      do: [
        putRecord(keys.task(task.taskId), record),
        putRecord(keys.ofNode("node_dead", task.taskId), {}),
      ],
    });
    const id = await taskIn(gone);
    const node = await register("node_heir");
    await using _inspector = await inspect("portal_strange");
    await becomes(id, { status: "BROKEN" });
    await remove(id);
    for (const nodeId of ["node_dead", "node_heir"]) {
      await store.delete(keys.ofNode(nodeId, task.taskId));
    }
    await store.delete(keys.task(task.taskId));
    await node.close();
    await cluster.nodes.forget("node_dead");
  });

  it("changes nothing about a task whose owner key is still there, or after its round was lost", async () => {
    const state = { status: "COMMANDRUNNING", desired: "run", nodeId: "node_cut" } as const;
    const [owned, other] = [await taskIn(state), await taskIn(state)];
    const { id: lease } = await store.grant(60_000);
    await store.put(keys.owner(owned), "{}", lease);
    const placement = new Placement(store);
    const { alerts } = cluster;
    const lockOf = async () => {
      const seen = await store.get(keys.lastInspection);
      return RoundLock.take(store, "portal_r", { seen, logger: silentLogger });
    };
    const lost = await lockOf();
    if (lost === undefined) throw new Error("no round");
    await lost.abandon();
    const late = new TaskInspection({ store, alerts, placement, guard: lost.guard });
    await late.leave("node_cut", [owned, other]);
    for (const id of [owned, other]) expect(await cluster.tasks.get(id)).toMatchObject(state);
    const lock = await lockOf();
    if (lock === undefined) throw new Error("no round");
    const { guard } = lock;
    await new TaskInspection({ store, alerts, placement, guard }).leave("node_cut", [owned, other]);
    expect(await cluster.tasks.get(owned)).toMatchObject(state);
    expect(await cluster.tasks.get(other)).toMatchObject({ status: "BROKEN" });
    expect(await lock.finish(Date.now())).toBe(true);
    await store.revoke(lease);
    await cluster.tasks.stop(owned);
    await remove(owned, other);
  });

  it("gives no round to a portal that looked before the last one ended", async () => {
    const seen = await store.get(keys.lastInspection);
    const options = { seen, logger: silentLogger };
    const first = await RoundLock.take(store, "portal_1", options);
    expect(await RoundLock.take(store, "portal_2", options)).toBeUndefined();
    expect(await first?.finish(Date.now())).toBe(true);
    expect(await RoundLock.take(store, "portal_2", options)).toBeUndefined();
    const next = { ...options, seen: await store.get(keys.lastInspection) };
    const second = await RoundLock.take(store, "portal_2", next);
    expect(second).toBeDefined();
    await second?.abandon();
    expect(await second?.finish(Date.now())).toBe(false);
  });

  it("raises an alert, and moves nothing, when a node with a lease neither reports nor answers", async () => {
    const impostor = createServer((_, response) => response.end('{"nodeId":"node_other"}'));
    await new Promise<void>((resolve) => impostor.listen(0, "127.0.0.1", resolve));
    const address = `http://127.0.0.1:${(impostor.address() as AddressInfo).port}`;
    const node = await register("node_mute", address);
    const state = { status: "COMMANDRUNNING", desired: "run", nodeId: "node_mute" } as const;
    const id = await taskIn(state);
    await using _inspector = await inspect("portal_mute", { staleMs: 500 });
    const unreachable = async () =>
      (await cluster.alerts.list({ limit: 500 })).items.filter(
        ({ kind, subject }) => kind === "node-unreachable" && subject === "node_mute",
      );
    await eventually(async () => expect(await unreachable()).toHaveLength(1));
    expect(await cluster.tasks.get(id)).toMatchObject(state);
    await eventually(async () => {
      await node.report();
      expect(await unreachable()).toEqual([]);
    });
    await cluster.tasks.stop(id);
    await remove(id);
    await node.close();
    await new Promise((resolve) => impostor.close(resolve));
  });

  it("waits for a node that lost its lease and answers, and moves its tasks when it is silent", async () => {
    const health = await HealthServer.listen({ host: "127.0.0.1", port: 0 });
    health.serve({ id: "node_well", registered: false, running: 0 });
    const well = await register("node_well", `http://127.0.0.1:${health.port}`);
    const heir = await register("node_heir");
    const state = { status: "COMMANDRUNNING", desired: "run", nodeId: "node_well" } as const;
    const id = await taskIn({ ...state, immortal: true });
    await using inspector = await inspect("portal_waits", { leaseMs: 60_000 });
    let rounds = 0;
    inspector.on("inspected", () => rounds++);
    await eventually(() => expect(rounds).toBeGreaterThan(1));
    await well.close();
    const closed = rounds;
    await eventually(() => expect(rounds).toBeGreaterThan(closed + 4));
    expect(await cluster.tasks.get(id)).toMatchObject(state);
    await health[Symbol.asyncDispose]();
    await becomes(id, { status: "CREATING", nodeId: "node_heir" });
    await cluster.tasks.stop(id);
    await remove(id);
    await heir.close();
    await cluster.nodes.forget("node_well");
  });

  it("spreads a burst of tasks over the nodes before they report", async () => {
    const nodes = await Promise.all(["node_s1", "node_s2", "node_s3"].map((id) => register(id)));
    const placement = new Placement(store);
    const chosen: (string | undefined)[] = [];
    for (let n = 0; n < 9; n++) {
      chosen.push((await placement.choose({ type: "scripted", except: [] })).nodeId);
    }
    for (const { session } of nodes) expect(session.alive).toBe(true);
    for (const id of ["node_s1", "node_s2", "node_s3"]) {
      expect(chosen.filter((one) => one === id)).toHaveLength(3);
    }
    for (const node of nodes) await node.close();
  });

  it("places a task again on a node that refused it before", async () => {
    const state = { status: "CREATED", desired: "run", refusedBy: ["node_again"] } as const;
    const id = await taskIn(state);
    const node = await register("node_again");
    await using _inspector = await inspect("portal_again");
    await becomes(id, { status: "CREATING", nodeId: "node_again" });
    await cluster.tasks.stop(id);
    await remove(id);
    await node.close();
  });

  it("moves the tasks of a node that answers, but does not register again within its lease", async () => {
    const health = await HealthServer.listen({ host: "127.0.0.1", port: 0 });
    health.serve({ id: "node_idle", registered: false, running: 0 });
    const idle = await register("node_idle", `http://127.0.0.1:${health.port}`);
    const heir = await register("node_heir");
    const state = { status: "COMMANDRUNNING", desired: "run", nodeId: "node_idle" } as const;
    const id = await taskIn({ ...state, immortal: true });
    await using inspector = await inspect("portal_idle");
    let rounds = 0;
    inspector.on("inspected", () => rounds++);
    await eventually(() => expect(rounds).toBeGreaterThan(0));
    await idle.close();
    await becomes(id, { status: "CREATING", nodeId: "node_heir" });
    await health[Symbol.asyncDispose]();
    await cluster.tasks.stop(id);
    await remove(id);
    await heir.close();
    await cluster.nodes.forget("node_idle");
  });

  it("moves the tasks of a node that is gone several at a time, with a bound", async () => {
    const node = await register("node_m2");
    const state = { status: "COMMANDRUNNING", desired: "run", nodeId: "node_m1" } as const;
    const ids = await Promise.all(
      Array.from({ length: 60 }, () => taskIn({ ...state, immortal: true })),
    );
    let underWay = 0;
    let most = 0;
    const counting = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (name !== "txn") return typeof value === "function" ? value.bind(target) : value;
        return async (transaction: Transaction) => {
          most = Math.max(most, ++underWay);
          return target.txn(transaction).finally(() => underWay--);
        };
      },
    });
    const guard = { key: "/inspect/execlock", target: "create", is: "=", than: 0 } as const;
    const placement = new Placement(counting);
    const plan = { store: counting, alerts: cluster.alerts, placement, guard };
    await new TaskInspection(plan).leave("node_m1", ids);
    expect(most).toBe(16);
    for (const id of ids) {
      expect(await cluster.tasks.get(id)).toMatchObject({ nodeId: "node_m2", status: "CREATING" });
      await cluster.tasks.stop(id);
    }
    await remove(...ids);
    await node.close();
  });

  it("raises no alert for a task that was started after the broken ones were listed", async () => {
    const id = await taskIn({ status: "COMMANDRUNNING", desired: "run" });
    await store.put(keys.ofStatus("BROKEN", id), "{}"); // what the list had
    const guard = { key: "/inspect/execlock", target: "create", is: "=", than: 0 } as const;
    const plan = { store, alerts: cluster.alerts, placement: new Placement(store), guard };
    await new TaskInspection(plan).alertBroken(new Set());
    const { items } = await cluster.alerts.list({ limit: 500, all: true });
    expect(items.filter(({ subject }) => subject === id)).toEqual([]);
    await store.delete(keys.ofStatus("BROKEN", id));
    await cluster.tasks.stop(id);
    await remove(id);
  });

  it("moves the alert of a broken task to the group that the task is moved to", async () => {
    const id = await taskIn({ status: "BROKEN", groupId: "group_old" });
    const groups = ["group_old", "group_new"] as const;
    const seenBy = (group: string) => cluster.alerts.list({ groups: [group] });
    await using _inspector = await inspect("portal_groups");
    await eventually(async () => expect((await seenBy(groups[0])).items).toHaveLength(1));
    await cluster.tasks.edit(id, { group: groups[1] });
    await eventually(async () => expect((await seenBy(groups[1])).items).toHaveLength(1));
    expect((await seenBy(groups[0])).items).toEqual([]);
    await remove(id);
  });

  it("drains a node although one of its tasks cannot be read, or was removed at that moment", async () => {
    const nodes = await Promise.all(["node_d1", "node_d2"].map((id) => register(id)));
    const id = await taskIn({ status: "CREATING", desired: "run", nodeId: "node_d1" });
    await store.put(keys.ofNode("node_d1", "task_0"), "{}");
    await store.put(keys.task("task_0"), "foreign");
    expect(await cluster.nodes.drain("node_d1")).toMatchObject({ draining: true });
    expect(await cluster.tasks.get(id)).toMatchObject({ nodeId: "node_d2" });
    await store.delete(keys.ofNode("node_d1", "task_0"));
    await store.delete(keys.task("task_0"));
    await cluster.nodes.undrain("node_d1");
    await cluster.tasks.stop(id);
    await remove(id);
    for (const node of nodes) await node.close();
  });

  it("resolves the alerts of a node that was forgotten, and does not bring the node back", async () => {
    const stopped = await taskIn({ status: "STOP", nodeId: "node_left" });
    const waits = await taskIn({ status: "COMMANDRUNNING", desired: "run", nodeId: "node_left" });
    await using _inspector = await inspect("portal_forgets");
    await becomes(waits, { status: "BROKEN" });
    const offline = async () =>
      (await cluster.alerts.list({ limit: 500 })).items.filter(
        ({ subject }) => subject === "node_left",
      );
    await eventually(async () => expect(await offline()).toHaveLength(1));
    await cluster.nodes.forget("node_left");
    let rounds = 0;
    _inspector.on("inspected", () => rounds++);
    await eventually(() => expect(rounds).toBeGreaterThan(3));
    await eventually(async () => expect(await offline()).toEqual([]));
    await expect(cluster.nodes.get("node_left")).rejects.toMatchObject({ code: "UNKNOWN_NODE" });
    expect(await cluster.tasks.get(stopped)).toMatchObject({ status: "STOP" });
    await remove(stopped, waits);
  });

  it("does not forget a node that comes back at that moment", async () => {
    const key = keys.node("redissyncer", "node_back");
    await store.put(key, JSON.stringify({ nodeid: "node_back", online: false }));
    let node: Registration | undefined;
    const racing = new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (name !== "delete" && name !== "txn") {
          return typeof value === "function" ? value.bind(target) : value;
        }
        return async (...args: never[]) => {
          node ??= await register("node_back");
          return (value as (...given: never[]) => Promise<unknown>).apply(target, args);
        };
      },
    });
    await expect(new Cluster(racing).nodes.forget("node_back")).rejects.toMatchObject({
      code: "PROTECTED",
    });
    expect((await store.get(key))?.lease).toBe(node?.session.lease);
    await node?.close();
  });
});
