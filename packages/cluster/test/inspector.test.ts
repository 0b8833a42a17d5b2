/** When an inspector must not act: the brake, and being cut off. */
import { connect, silentLogger } from "@ropeway/core";
import { eventually, type FaultProxy, startEtcd, startProxy, startRedis } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { NodeWatch } from "../src/inspection/node-watch.ts";
import { keys } from "../src/keys.ts";
import { Registration } from "../src/nodes/registration.ts";
import { openEtcdStore } from "../src/store/etcd/etcd-store.ts";
import { openRedisStore } from "../src/store/redis/redis-store.ts";
import type { Store } from "../src/store/store.ts";
import { gatedStore } from "./gated-store.fixture.ts";
import { redisStage } from "./stage.fixture.ts";

const register = (store: Store, id: string) =>
  Registration.open({
    store,
    type: "redissyncer",
    id,
    address: "",
    version: "",
    types: ["scripted"],
    leaseMs: 60_000,
    reportMs: 60_000,
    maxTasks: 100,
    logger: silentLogger,
    tasks: () => 0,
  });

it("moves nothing when most nodes vanish at once, says so, and goes on after the brake", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const cluster = new Cluster(store);
  const nodes = await Promise.all(["a", "b", "d"].map((id) => register(store, `node_${id}`)));
  const ids: string[] = [];
  for (let n = 0; n < 8; n++) {
    const wish = { name: `t${n}`, type: "scripted", config: {}, start: true };
    ids.push((await cluster.tasks.create(wish)).task.taskId);
  }
  const options = { id: "portal_x", address: "", everyMs: 200, probeEveryMs: 10, leaseMs: 1_000 };
  const inspector = await cluster.inspector({ ...options, brakeMs: 6_000 }).start();
  await eventually(async () => expect(await store.get(keys.lastInspection)).toBeDefined());
  const placed = await Promise.all(ids.map(async (id) => (await cluster.tasks.get(id)).nodeId));
  const began = performance.now();
  await Promise.all(nodes.slice(0, 2).map((node) => node.session.close()));
  await eventually(async () => {
    const { items } = await cluster.alerts.list();
    expect(items.filter(({ kind }) => kind === "brake")).toHaveLength(1);
  });
  const after = await Promise.all(ids.map(async (id) => (await cluster.tasks.get(id)).nodeId));
  if (performance.now() - began < 5_000) expect(after).toEqual(placed);
  await eventually(
    async () => {
      for (const id of ids) expect((await cluster.tasks.get(id)).nodeId).toBe("node_d");
    },
    { withinMs: 20_000 },
  );
  await inspector.close();
  await Promise.all(nodes.map((node) => node.close()));
  await stage.close();
}, 60_000);

it("keeps the brake of other portals when a portal starts later", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const cluster = new Cluster(store);
  const nodes = await Promise.all(["a", "b", "d"].map((id) => register(store, `node_${id}`)));
  const ids: string[] = [];
  for (let n = 0; n < 6; n++) {
    const wish = { name: `t${n}`, type: "scripted", config: {}, start: true };
    ids.push((await cluster.tasks.create(wish)).task.taskId);
  }
  const placed = async () =>
    Promise.all(ids.map(async (id) => (await cluster.tasks.get(id)).nodeId));
  const before = await placed();
  const timing = { everyMs: 200, probeEveryMs: 10, leaseMs: 1_000, brakeMs: 600_000 };
  const options = { address: "", ...timing };
  const brakes = async () =>
    (await cluster.alerts.list()).items.filter(({ kind }) => kind === "brake");
  {
    await using first = await cluster.inspector({ id: "portal_1", ...options }).start();
    await eventually(async () => expect(await store.get(keys.lastInspection)).toBeDefined());
    await Promise.all(nodes.slice(0, 2).map((node) => node.session.close()));
    await eventually(async () => expect(await brakes()).toHaveLength(1));
    // The nodes have not vanished "at once" any more, as seen from now, and the brake is still on.
    let inspections = 0;
    first.on("inspected", () => inspections++);
    await eventually(() => expect(inspections).toBeGreaterThan(14), { withinMs: 20_000 });
    expect(first.braked).toBe(true);
    expect(await placed()).toEqual(before);
  }
  let rounds = 0;
  const later = new Cluster(await stage.open()).inspector({ id: "portal_2", ...options });
  later.on("inspected", () => rounds++);
  await later.start();
  await eventually(() => expect(rounds).toBeGreaterThan(8), { withinMs: 20_000 });
  expect(await placed()).toEqual(before);
  expect(await brakes()).toHaveLength(1);
  await later.close();
  // After its time, also for a portal that has seen nothing but the alert.
  const short = new Cluster(await stage.open()).inspector({
    ...{ id: "portal_3", ...options, brakeMs: 1_000 },
  });
  await short.start();
  await eventually(async () => expect(new Set(await placed())).toEqual(new Set(["node_d"])), {
    withinMs: 20_000,
  });
  await eventually(async () => expect(await brakes()).toEqual([]));
  await short.close();
  await Promise.all(nodes.map((node) => node.close()));
  await stage.close();
}, 60_000);

it("does not count a node as gone because another program removed a key that ends like its own", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const first = await register(store, "node_a");
  const watch = new NodeWatch(store, silentLogger, () => {});
  watch.start();
  await eventually(() => expect(watch.onlineCount).toBe(1));
  await store.put("/nodes/redissyncer/other/node_a", "{}");
  await store.delete("/nodes/redissyncer/other/node_a");
  const second = await register(store, "node_b");
  await eventually(() => expect(watch.get("node_b")).toBeDefined());
  expect([watch.onlineCount, watch.goneWithin(600_000)]).toEqual([2, 0]);
  await watch.close();
  await Promise.all([first, second].map((node) => node.close()));
  await stage.close();
});

it("does not brake when the only node is gone", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const cluster = new Cluster(store);
  const node = await register(store, "node_only");
  const wish = { name: "t", type: "scripted", config: {}, start: true };
  const { taskId } = (await cluster.tasks.create(wish)).task;
  const options = { address: "", everyMs: 200, probeEveryMs: 10, leaseMs: 1_000 };
  const inspector = await cluster.inspector({ id: "portal_x", ...options }).start();
  await eventually(async () => expect(await store.get(keys.lastInspection)).toBeDefined());
  await node.session.close();
  await eventually(async () => {
    const waits = { status: "CREATED", nodeId: "", reason: "no node is online" };
    expect(await cluster.tasks.get(taskId)).toMatchObject(waits);
  });
  expect((await cluster.alerts.list()).items).toMatchObject([{ kind: "node-offline" }]);
  await inspector.close();
  await node.close();
  await stage.close();
});

it("declares no node offline after its round was lost", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const key = keys.node("redissyncer", "node_doubted");
  let tries = 0;
  const losing = gatedStore(store, async ({ do: operations }) => {
    if (!operations.some((one) => one.key === key)) return;
    tries += 1;
    await store.delete(keys.inspectionLock);
  });
  await store.put(keys.ofNode("node_doubted", "task_1"), "{}");
  const options = { address: "", everyMs: 100, probeEveryMs: 10, leaseMs: 1_000 };
  const inspector = new Cluster(losing).inspector({ id: "portal_x", ...options });
  const offline: string[] = [];
  inspector.on("offline", (nodeId) => offline.push(nodeId));
  await inspector.start();
  await eventually(() => expect(tries).toBeGreaterThan(2));
  await inspector.close();
  expect(offline).toEqual([]);
  expect(await store.get(key)).toBeUndefined();
  await stage.close();
});

/** A store seen twice: directly, and through a proxy that can be cut. */
interface CutStage {
  readonly direct: Store;
  readonly cut: Store;
  readonly proxy: FaultProxy;
  close(): Promise<void>;
}

const cutStages: Record<string, () => Promise<CutStage>> = {
  async redis() {
    const server = await startRedis();
    const proxy = await startProxy(server);
    const near = await connect(server.url);
    const far = await connect(proxy.url, { offlineWaitMs: 200 });
    const [direct, cut] = [openRedisStore(near), openRedisStore(far)];
    const open = [cut, direct, far, near, proxy, server];
    const close = async () => {
      for (const one of open) await one.close();
    };
    return { direct, cut, proxy, close };
  },
  async etcd() {
    const etcd = await startEtcd();
    const proxy = await startProxy(etcd.first);
    const logger = silentLogger;
    const direct = await openEtcdStore({ endpoints: etcd.urls, logger });
    const endpoints = [`http://127.0.0.1:${proxy.port}`];
    const cut = await openEtcdStore({ endpoints, logger, tryMs: 500, timeoutMs: 1_000 });
    const open = [cut, direct, proxy, etcd];
    const close = async () => {
      for (const one of open) await one.close();
    };
    return { direct, cut, proxy, close };
  },
};

it("moves nothing in the first moments after the store was away", async () => {
  const { direct, cut, proxy, close } = await (cutStages.redis as () => Promise<CutStage>)();
  const cluster = new Cluster(direct);
  const ids = ["node_a", "node_b", "node_d"];
  const nodes = await Promise.all(ids.map((id) => register(direct, id)));
  const wish = { name: "t", type: "scripted", config: {}, start: true };
  const { task } = await cluster.tasks.create(wish);
  const options = { id: "portal_cut", address: "", everyMs: 200, leaseMs: 8_000 };
  let failures = 0;
  const logger = { ...silentLogger, warn: () => void failures++ };
  await using inspector = new Cluster(cut).inspector({ ...options, probeEveryMs: 10, logger });
  const placed: Promise<string>[] = [];
  inspector.on("inspected", () => {
    placed.push(cluster.tasks.get(task.taskId).then(({ nodeId }) => nodeId));
  });
  inspector.on("error", () => {});
  await inspector.start();
  await eventually(() => expect(placed.length).toBeGreaterThan(1));
  proxy.refuse();
  proxy.cut();
  const before = placed.length;
  // Its node dies where the portal does not see it.
  await nodes[ids.indexOf(task.nodeId)]?.session.close();
  await eventually(() => expect(failures).toBeGreaterThan(0), { withinMs: 20_000 });
  await proxy.heal();
  await eventually(() => expect(placed.length).toBeGreaterThan(before + 1), { withinMs: 20_000 });
  expect(await placed[before + 1]).toBe(task.nodeId);
  const moved = async () => (await cluster.tasks.get(task.taskId)).nodeId !== task.nodeId;
  await eventually(async () => expect(await moved()).toBe(true), { withinMs: 30_000 });
  await inspector.close();
  await Promise.all(nodes.map((node) => node.close()));
  await close();
}, 60_000);

it.each(Object.keys(cutStages))(
  "stops inspecting while it is cut off from %s, and comes back",
  async (kind) => {
    const { direct, cut, proxy, close } = await (cutStages[kind] as () => Promise<CutStage>)();
    const options = { address: "", everyMs: 200, leaseMs: 2_000 };
    const far = new Cluster(cut).inspector({ id: "portal_far", ...options });
    let rounds = 0;
    far.on("inspected", () => rounds++);
    far.on("error", () => {});
    await far.start();
    await eventually(() => expect(rounds).toBeGreaterThan(1));
    proxy.refuse();
    proxy.cut();
    const key = keys.node("portal", "portal_far");
    await direct.grant(1_000); // leases end while somebody watches over them
    await eventually(async () => expect(await direct.get(key)).toBeUndefined(), {
      withinMs: 20_000,
    });
    const before = rounds;
    const near = new Cluster(direct).inspector({ id: "portal_near", ...options });
    let others = 0;
    near.on("inspected", () => others++);
    await near.start();
    await eventually(() => expect(others).toBeGreaterThan(2), { withinMs: 20_000 });
    expect(rounds).toBe(before);
    await proxy.heal();
    await eventually(async () => expect(await direct.get(key)).toBeDefined(), {
      withinMs: 20_000,
    });
    await near.close();
    await eventually(() => expect(rounds).toBeGreaterThan(before), { withinMs: 20_000 });
    await far.close();
    await close();
  },
  120_000,
);
