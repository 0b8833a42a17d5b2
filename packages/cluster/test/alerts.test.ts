/** Alerts: told once, also when the first attempt fails; resolved when their cause is gone; bounded. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect, type Logger, silentLogger } from "@ropeway/core";
import { HttpDispatcher, MergeQueue } from "@ropeway/merge";
import { eventually, startRedis } from "@ropeway/testkit";
import { expect, it, vi } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { type Alert, Alerts } from "../src/inspection/alerts.ts";
import { webhookSink } from "../src/inspection/webhook.ts";
import { keys } from "../src/keys.ts";
import { Registration } from "../src/nodes/registration.ts";
import type { Store } from "../src/store/store.ts";
import { gatedStore } from "./gated-store.fixture.ts";
import { redisStage } from "./stage.fixture.ts";

const INSPECT = { id: "portal_a", address: "", everyMs: 100, probeEveryMs: 10, leaseMs: 1_000 };

/** A task that is BROKEN, without a node that broke it. */
async function brokenTask(cluster: Cluster, store: Store, name: string): Promise<string> {
  const { task } = await cluster.tasks.create({ name, type: "scripted", config: {} });
  const { taskId } = task;
  await store.txn({
    do: [
      { op: "delete", key: keys.ofStatus("CREATED", taskId) },
      { op: "put", key: keys.ofStatus("BROKEN", taskId), value: JSON.stringify({ taskId }) },
      {
        op: "put",
        key: keys.task(taskId),
        value: JSON.stringify({ ...task, status: "BROKEN", reason: "on purpose" }),
      },
    ],
  });
  return taskId;
}

it("delivers alerts that come together to the webhook in one request, once", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const redis = await connect(stage.server.url);
  const bodies: string[] = [];
  const endpoint = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    bodies.push(text);
    response.end();
  });
  await new Promise<void>((resolve) => endpoint.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/alerts`;
  const queue = new MergeQueue(redis);
  const dispatcher = await new HttpDispatcher(queue, { allow: ["loopback"] }).start();
  const sink = webhookSink(queue, { url, mergeMs: 1_000 });
  const cluster = new Cluster(store, { alertSinks: [sink] });
  const ids = [
    await brokenTask(cluster, store, "first"),
    await brokenTask(cluster, store, "second"),
  ];
  // Two portals see the same two tasks.
  const other = new Cluster(await stage.open(), { alertSinks: [sink] });
  const inspectors = await Promise.all([
    cluster.inspector(INSPECT).start(),
    other.inspector({ ...INSPECT, id: "portal_b" }).start(),
  ]);
  await eventually(() => expect(bodies).toHaveLength(1), { withinMs: 10_000 });
  for (const id of ids) expect(bodies[0]).toContain(id);
  const { items } = await cluster.alerts.list();
  expect(items.map(({ subject }) => subject).sort()).toEqual([...ids].sort());
  await eventually(async () => {
    for (const { sentAt } of (await cluster.alerts.list()).items) expect(sentAt).not.toBeNull();
  });
  await Promise.all(inspectors.map((one) => one.close()));
  expect(bodies).toHaveLength(1);
  await dispatcher.close();
  await redis.close();
  await stage.close();
  await new Promise((resolve) => endpoint.close(resolve));
}, 30_000);

it.each([-1, 1])("delivers alerts in time if the portal's clock is %i hours off", async (hours) => {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  await using queue = new MergeQueue(redis);
  const sink = webhookSink(queue, { url: "http://127.0.0.1:9/alerts", mergeMs: 2_000 });
  const right = Date.now();
  vi.useFakeTimers({ toFake: ["Date"], now: right + hours * 3_600_000 });
  try {
    await sink({ id: "a", count: 1, raisedAt: 0 } as Alert);
  } finally {
    vi.useRealTimers();
  }
  const [, due] = (await server.command(
    ...["ZRANGE", queue.keys.timer, "0", "-1", "WITHSCORES"],
  )) as readonly string[];
  const waitsMs = Number(due) * 1_000 - right;
  expect(waitsMs).toBeGreaterThan(1_000);
  expect(waitsMs).toBeLessThan(1_800_000);
});

it("sends an alert again until the sinks take it, and resolves it when the task is not BROKEN", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const taken: string[] = [];
  let failures = 3;
  const sink = async (alert: Alert) => {
    if (failures-- > 0) throw new Error("the sink is away");
    taken.push(alert.subject);
  };
  const cluster = new Cluster(store, { alertSinks: [sink] });
  const taskId = await brokenTask(cluster, store, "broken");
  await using inspector = cluster.inspector(INSPECT);
  await inspector.start();
  await eventually(() => expect(taken).toEqual([taskId]));
  expect((await cluster.alerts.list()).items).toHaveLength(1);
  await cluster.tasks.remove(taskId);
  await eventually(async () => expect((await cluster.alerts.list()).items).toEqual([]));
  expect((await cluster.alerts.list({ all: true })).items).toMatchObject([{ subject: taskId }]);
  expect(taken).toEqual([taskId]);
  await inspector.close();
  await stage.close();
});

it("goes on inspecting while a sink hangs, and gives it each alert once at a time", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const asked: string[] = [];
  let answer = (_: undefined) => {};
  const hanging = new Promise<undefined>((resolve) => {
    answer = resolve;
  });
  const sink = (alert: Alert) => {
    asked.push(alert.subject);
    return hanging;
  };
  const cluster = new Cluster(store, { alertSinks: [sink] });
  const ids = [await brokenTask(cluster, store, "one"), await brokenTask(cluster, store, "two")];
  await using inspector = cluster.inspector(INSPECT);
  let rounds = 0;
  inspector.on("inspected", () => rounds++);
  await inspector.start();
  await eventually(() => expect(rounds).toBeGreaterThan(3));
  expect([...asked].sort()).toEqual([...ids].sort());
  answer(undefined);
  await eventually(async () => {
    for (const { sentAt } of (await cluster.alerts.list()).items) expect(sentAt).not.toBeNull();
  });
  expect(asked).toHaveLength(2);
  await inspector.close();
  await stage.close();
});

it("raises one alert when two portals notice a cause at once, and a new one each time a task breaks", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const told: string[] = [];
  const sink = async (alert: Alert) => {
    told.push(`${alert.cause} ${alert.count}`);
  };
  const plan = { store, sinks: [sink], logger: silentLogger };
  const portals = [new Alerts(plan), new Alerts(plan), new Alerts(plan)];
  const draft = { kind: "brake", cause: "c", text: "gone", subject: "" } as const;
  const raised = await Promise.all(portals.map((alerts) => alerts.raise(draft)));
  expect(raised.filter(Boolean)).toHaveLength(1);
  expect(told).toEqual(["c 1"]);
  const cluster = new Cluster(store, { alertSinks: [sink] });
  const id = await brokenTask(cluster, store, "breaks");
  await using inspector = await cluster.inspector(INSPECT).start();
  await eventually(() => expect(told).toContain(`task-broken:${id}:0 1`));
  const task = await cluster.tasks.get(id);
  await store.put(keys.task(id), JSON.stringify({ ...task, epoch: 7, reason: "again" }));
  await eventually(() => expect(told).toContain(`task-broken:${id}:7 1`));
  const open = async () =>
    (await cluster.alerts.list()).items.filter(({ subject }) => subject === id);
  await eventually(
    async () => expect(await open()).toMatchObject([{ text: expect.stringMatching(/again$/) }]),
    {
      withinMs: 5_000,
    },
  );
  await inspector.close();
  await stage.close();
});

it("logs once that an alert cannot be sent, and once that it was sent at last", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const lines: string[] = [];
  const note = (level: string) => (_: unknown, message: string) => {
    lines.push(`${level}: ${message}`);
  };
  const logger = { ...silentLogger, error: note("error"), info: note("info") } as Logger;
  let [away, tries] = [true, 0];
  const sink = async () => {
    tries += 1;
    if (away) throw new Error("the sink is away");
  };
  const alerts = new Alerts({ store, sinks: [sink], logger });
  const sendOpen = async () => {
    for (const alert of (await alerts.open()).values()) await alerts.send(alert);
  };
  await alerts.raise({ kind: "brake", cause: "c", text: "many nodes are gone", subject: "" });
  for (let round = 0; round < 5; round++) await sendOpen();
  expect(tries).toBe(6);
  expect(lines).toEqual(["error: many nodes are gone", "error: an alert could not be sent yet"]);
  away = false;
  for (let round = 0; round < 3; round++) await sendOpen();
  expect(tries).toBe(7);
  expect(lines.slice(2)).toEqual(["info: an alert was sent at last"]);
  await stage.close();
});

it("does not count an alert as sent because the one before it was", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const responses: ((value: undefined) => void)[] = [];
  const sink = () => new Promise<undefined>((resolve) => responses.push(resolve));
  const alerts = new Alerts({ store, sinks: [sink], logger: silentLogger });
  const draft = { kind: "brake", cause: "c", text: "many nodes are gone", subject: "" } as const;
  await alerts.raise(draft);
  const [first] = (await alerts.list()).items;
  await alerts.resolve("c");
  await alerts.raise(draft);
  expect(responses).toHaveLength(2);
  responses[0]?.(undefined);
  // Sending an alert again while it is being sent does nothing: it is over once this calls the sink.
  await eventually(async () => {
    void alerts.send({ ...first, sentAt: null } as Alert);
    expect(responses).toHaveLength(3);
  });
  expect((await alerts.list()).items).toMatchObject([{ count: 2, sentAt: null }]);
  responses[1]?.(undefined);
  await eventually(async () =>
    expect((await alerts.list()).items).toMatchObject([{ sentAt: expect.any(Number) }]),
  );
  await stage.close();
});

it("keeps who acknowledged an alert first", async () => {
  const stage = await redisStage();
  const alerts = new Alerts({ store: await stage.open(), sinks: [], logger: silentLogger });
  await alerts.raise({ kind: "brake", cause: "c", text: "many nodes are gone", subject: "" });
  const id = (await alerts.list()).items[0]?.id ?? "";
  const first = await alerts.acknowledge(id, "ann");
  expect(await alerts.acknowledge(id, "bob")).toEqual(first);
  expect(await alerts.get(id)).toMatchObject({ acknowledgedBy: "ann" });
  await stage.close();
});

it("is acknowledged only by those who may see its group when it is written", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const alerts = new Alerts({ store, sinks: [], logger: silentLogger });
  const draft = { kind: "task-broken", cause: "c", text: "BROKEN", subject: "task_1" } as const;
  await alerts.raise({ ...draft, group: "mine" });
  const id = (await alerts.list()).items[0]?.id ?? "";
  const unknown = { code: "UNKNOWN_ALERT" };
  await expect(alerts.acknowledge(id, "ann", ["other"])).rejects.toMatchObject(unknown);
  let moved = false;
  const racing = gatedStore(store, async () => {
    if (!moved) await alerts.regroup("c", "other");
    moved = true;
  });
  const late = new Alerts({ store: racing, sinks: [], logger: silentLogger });
  await expect(late.acknowledge(id, "ann", ["mine"])).rejects.toMatchObject(unknown);
  expect(await alerts.get(id)).toMatchObject({ group: "other", acknowledgedBy: null });
  expect(await alerts.acknowledge(id, "bob", ["other"])).toMatchObject({ acknowledgedBy: "bob" });
  await stage.close();
});

it("keeps a bounded number of resolved alerts", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const alerts = new Alerts({ store, sinks: [], logger: silentLogger });
  for (let n = 0; n < 1_100; n += 50) {
    await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const cause = `c${n + i}`;
        await alerts.raise({ kind: "node-offline", cause, text: "gone", subject: cause });
        await alerts.resolve(cause);
      }),
    );
  }
  await alerts.raise({ kind: "node-offline", cause: "open", text: "gone", subject: "open" });
  for (let round = 0; round < 3; round++) await alerts.trim();
  let kept = 0;
  for (let cursor: string | undefined; ; ) {
    const page = await alerts.list({ all: true, cursor, limit: 500 });
    kept += page.items.length;
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  expect(kept).toBe(1_000);
  expect((await alerts.open()).size).toBe(1);
  // The open one is on the first page, behind however many that are resolved.
  const { items, cursor } = await alerts.list();
  expect(items.map(({ cause }) => cause)).toEqual(["open"]);
  expect(cursor).toBeUndefined();
  await stage.close();
}, 30_000);

it("goes on inspecting when other programs have left half records under its keys", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const cluster = new Cluster(store);
  const { id: lease } = await store.grant(60_000);
  const half = { nodeid: "node_half", online: true };
  await store.put(keys.node("redissyncer", "node_half"), JSON.stringify(half), lease);
  await store.put(keys.node("redissyncer", "node_text"), "not JSON", lease);
  await store.put(keys.node("redissyncer", "node_a"), '{"nodeid":"node_b","online":true}', lease);
  const strange = { taskId: "task_half", status: "CREATED", desired: "run" };
  const names = { groupId: "g", nodeId: "", taskName: "half", type: "scripted", md5: "x" };
  await store.put(keys.task("task_half"), JSON.stringify({ ...strange, ...names }));
  await store.put(keys.ofStatus("CREATED", "task_half"), "[]");
  for (const value of ["null", "{", '"text"', "[1]", '{"taskId":"task_other","status":"STOP"}']) {
    await store.put(keys.task(`task_${value.length}`), value);
    await store.put(keys.ofStatus("BROKEN", `task_${value.length}`), value);
    await store.put(keys.ofNode("node_x", `task_${value.length}`), value);
    await store.put(keys.alert(`${value.length}`), value);
    await store.put(keys.request(`${value.length}`), value);
  }
  await store.put(keys.lastInspection, "yesterday");
  await store.put(keys.idSeed, "many");
  let rounds = 0;
  await using inspector = cluster.inspector(INSPECT);
  inspector.on("inspected", () => rounds++);
  await inspector.start();
  await eventually(() => expect(rounds).toBeGreaterThan(2));
  expect((await cluster.nodes.list("redissyncer")).items[0]).toMatchObject({
    nodeid: "node_half",
    load: { tasks: 0, maxTasks: 0 },
    types: [],
  });
  const healthy = await Registration.open({
    store,
    ...{ type: "redissyncer", id: "node_ok", address: "", version: "", types: ["scripted"] },
    ...{ leaseMs: 60_000, reportMs: 60_000, maxTasks: 5, logger: silentLogger, tasks: () => 0 },
  } as const);
  const wish = { name: "n", type: "scripted", config: {}, start: true };
  expect((await cluster.tasks.create(wish)).task.nodeId).toBe("node_ok");
  await eventually(async () =>
    expect(await cluster.tasks.get("task_half")).toMatchObject({ nodeId: "node_ok" }),
  );
  await inspector.close();
  await healthy.close();
  await stage.close();
}, 30_000);

it("forgets every idempotency key that is older than a day", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const now = Date.now();
  for (let n = 0; n < 250; n++) {
    const at = n < 120 ? now : now - 25 * 3_600_000;
    const name = `${String(n).padStart(4, "0")}`;
    await store.put(keys.request(name), JSON.stringify({ taskId: "t", body: "", at }));
  }
  await using inspector = new Cluster(store).inspector(INSPECT);
  await inspector.start();
  await eventually(
    async () => expect((await store.range(keys.requests)).entries).toHaveLength(120),
    { withinMs: 10_000 },
  );
  await inspector.close();
  await stage.close();
});

it("lists alerts past any number of keys of other programs", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const alerts = new Alerts({ store, sinks: [], logger: silentLogger });
  const names = Array.from({ length: 999 }, (_, n) => `!${String(n).padStart(3, "0")}`);
  for (let at = 0; at < names.length; at += 100) {
    await store.txn({
      do: names
        .slice(at, at + 100)
        .map((name) => ({ op: "put", key: keys.alert(name), value: "" })),
    });
  }
  await store.put(keys.alert("$/!"), ""); // the last of a page, and its last part sorts before all
  await alerts.raise({ kind: "brake", cause: "c", text: "many nodes are gone", subject: "" });
  let reads = 0;
  const counted = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (name === "range" && ++reads > 10) throw new Error("it reads the same page again");
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const page = await new Alerts({ store: counted, sinks: [], logger: silentLogger }).list();
  expect(page).toMatchObject({ items: [{ cause: "c" }] });
  expect(page.cursor).toBeUndefined();
  await stage.close();
});
