/** Tasks under hostile conditions: lost responses, two portals at once, values of other programs. */
import { silentLogger } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { keys } from "../src/keys.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import { rangeAll } from "../src/record.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import type { Store, Transaction } from "../src/store/store.ts";
import { clusterForFile } from "./cluster-for-file.fixture.ts";
import { deletes, faultyStore, type StoreFault } from "./faulty-store.fixture.ts";

const secrets = new SecretBox("00".repeat(32));

const { stage, store, cluster, becomes } = await clusterForFile({ secrets });

describe("tasks", () => {
  let count = 0;
  const wish = (options: object = {}) => ({
    name: `t${++count}`,
    type: "scripted",
    config: {},
    ...options,
  });
  const create = async (options: object = {}) =>
    (await cluster.tasks.create(wish(options))).task.taskId;
  const startNode = (on: Store, id: string, options: object = {}) =>
    new ClusterNode(on, {
      id,
      address: "",
      runners: [scriptedRunner()],
      secrets,
      leaseMs: 5_000,
      reportMs: 200,
      progressMs: 100,
      ...options,
    }).start();
  /** Every path that names the task, without its events. */
  const pathsOf = async (taskId: string) =>
    (await rangeAll(store, "/tasks/")).entries
      .filter(({ key, value }) => key.includes(taskId) || value.includes(taskId))
      .map(({ key }) => key)
      .filter((key) => !key.startsWith("/tasks/event/"));

  it.each<StoreFault>(["lost", "unheard", "late"])(
    "creates a task once when the first transaction is %s",
    async (kind) => {
      let faults = 1;
      const portal = new Cluster(
        faultyStore(store, () => (faults-- > 0 ? kind : undefined)),
        { secrets },
      );
      await portal.nodes.list(); // nothing else is under way
      const draft = wish();
      faults = 0;
      await portal.tasks.create(wish()); // takes the seed of its ids
      faults = 1;
      const { task, repeated } = await portal.tasks.create(draft);
      expect(repeated).toBe(false);
      expect((await cluster.tasks.list({ name: draft.name })).items).toEqual([task]);
    },
  );

  it("says that the task of an idempotency key was removed, and does not create it again", async () => {
    const draft = wish({ idempotencyKey: "once" });
    const { task } = await cluster.tasks.create(draft);
    await cluster.tasks.remove(task.taskId);
    await expect(cluster.tasks.create(draft)).rejects.toMatchObject({
      code: "IDEMPOTENCY_KEY_REUSED",
      details: { removedTaskId: task.taskId },
    });
  });

  it("keeps every index in step when two portals use any two verbs at once, in any state", async () => {
    const other = new Cluster(await stage.open(), { secrets });
    await using _one = await startNode(await stage.open(), "node_v1");
    await using _two = await startNode(await stage.open(), "node_v2");
    type Verb = (on: Cluster, taskId: string) => Promise<unknown>;
    const remove: Verb = (on, id) => on.tasks.remove(id);
    const verbs: Verb[] = [
      (on, id) => on.tasks.start(id),
      (on, id) => on.tasks.stop(id),
      remove,
      (on, id) => on.tasks.edit(id, { name: `e${++count}`, immortal: true }),
      (on, id) => on.tasks.move(id, count % 2 === 0 ? "node_v1" : "node_v2"),
    ];
    const states: Record<string, () => Promise<string>> = {
      created: () => create(),
      creating: () => create({ start: true }),
      running: async () => {
        const id = await create({ start: true });
        await becomes(id, { status: "COMMANDRUNNING" });
        return id;
      },
      finished: async () => {
        const id = await create({ start: true, config: { runMs: 1 } });
        await becomes(id, { status: "FINISH" });
        return id;
      },
    };
    const ids: string[] = [];
    const tryPair = async (make: () => Promise<string>, [first, second]: [Verb, Verb]) => {
      const id = await make();
      ids.push(id);
      const outcomes = await Promise.allSettled([first(cluster, id), second(other, id)]);
      for (const [n, one] of outcomes.entries()) {
        const code = one.status === "rejected" ? one.reason.code : "ILLEGAL_TRANSITION";
        // A task that was stopped while a node claimed it still has its owner for a moment.
        const owned = [first, second][n] === remove ? ["CONFLICT"] : [];
        expect(["ILLEGAL_TRANSITION", "UNKNOWN_TASK", ...owned]).toContain(code);
      }
    };
    for (const first of verbs) {
      const makes = Object.values(states);
      await Promise.all(
        makes.flatMap((make) => verbs.map((second) => tryPair(make, [first, second]))),
      );
    }
    // Whatever came of it: stopped, each is at rest without an owner; removed, it leaves nothing.
    const clear = async (id: string) => {
      await cluster.tasks.stop(id).catch((error) => {
        expect(["ILLEGAL_TRANSITION", "UNKNOWN_TASK"]).toContain(error.code);
      });
      const removed = () =>
        cluster.tasks.remove(id).catch((error) => {
          if (error.code !== "UNKNOWN_TASK") throw error;
        });
      await eventually(removed, { withinMs: 30_000 });
    };
    await Promise.all(ids.map(clear));
    for (const id of ids) expect(await pathsOf(id)).toEqual([]);
  }, 120_000);

  it("does not run a task that is stopped while a node claims it", async () => {
    const id = await create();
    const node = await stage.open();
    let stopping: Promise<unknown> | undefined;
    const claims = faultyStore(node, (transaction) => {
      const claim = transaction.do.some(({ op, key }) => op === "put" && key === keys.owner(id));
      if (claim) stopping ??= cluster.tasks.stop(id);
      return undefined;
    });
    await using _node = await startNode(claims, "node_claims");
    await cluster.tasks.start(id);
    await eventually(() => expect(stopping).toBeDefined());
    await stopping;
    await becomes(id, { status: "STOP", desired: "stop" });
    await eventually(async () => expect(await store.get(keys.owner(id))).toBeUndefined());
    await cluster.tasks.remove(id);
  });

  it.each(["stop", "move"])(
    "lets go of a task when the end of its run could not be stored: %s",
    async (verb) => {
      let id = "";
      let faults = 0;
      const cut = faultyStore(await stage.open(), (transaction) =>
        deletes(transaction, keys.owner(id)) && faults-- > 0 ? "lost" : undefined,
      );
      await using _one = await startNode(cut, "node_cut");
      id = await create({ start: true });
      await becomes(id, { status: "COMMANDRUNNING", nodeId: "node_cut" });
      await using _two = await startNode(await stage.open(), "node_other");
      faults = 6; // every try of the run, and the first one of the host
      if (verb === "stop") {
        await cluster.tasks.stop(id);
        await becomes(id, { status: "STOP" });
      } else {
        await cluster.tasks.move(id, "node_other");
        await becomes(id, { status: "COMMANDRUNNING", nodeId: "node_other" });
        await cluster.tasks.stop(id);
        await becomes(id, { status: "STOP" });
      }
      expect(faults).toBeLessThanOrEqual(0);
      expect(await store.get(keys.owner(id))).toBeUndefined();
      await cluster.tasks.remove(id);
    },
    30_000,
  );

  it("writes nothing about a task whose owner key is gone, and starts over with a later epoch", async () => {
    const runs: number[] = [];
    const node = await stage.open();
    const id = await create({ immortal: true });
    let refused = 0;
    const watched = new Proxy(node, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (name !== "txn") return typeof value === "function" ? value.bind(target) : value;
        return async (transaction: Transaction) => {
          const result = await target.txn(transaction);
          const guarded = transaction.if?.some(({ key }) => key === keys.owner(id)) ?? false;
          if (guarded && runs.length === 1 && !result.succeeded) refused += 1;
          return result;
        };
      },
    });
    await using one = await startNode(watched, "node_owner");
    one.on("run", (_, epoch) => runs.push(epoch));
    await cluster.tasks.start(id);
    await becomes(id, { status: "COMMANDRUNNING" });
    const before = await store.get(keys.task(id));
    await store.delete(keys.owner(id));
    // The first write of the run that follows is refused, although nobody has changed the task.
    await eventually(() => expect(runs.length).toBeGreaterThan(1), { withinMs: 15_000 });
    expect(refused).toBeGreaterThan(0);
    expect(runs[1]).toBeGreaterThan(runs[0] ?? 0);
    expect(before?.value).toContain(`"epoch":${runs[0]}`);
    await becomes(id, { status: "COMMANDRUNNING", epoch: runs[1] });
    await cluster.tasks.stop(id);
    await becomes(id, { status: "STOP" });
    await cluster.tasks.remove(id);
  });

  it("starts no task on a node that has just left", async () => {
    const id = await create();
    {
      await using leaving = await startNode(await stage.open(), "node_leaving");
      const seen = await create({ start: true }); // the nodes are known from now on, for a moment
      await becomes(seen, { status: "COMMANDRUNNING", nodeId: leaving.id });
    }
    const waits = await cluster.tasks.start(id);
    expect(waits).toMatchObject({ nodeId: "", status: "CREATED" });
    await cluster.tasks.stop(id);
    await cluster.tasks.remove(id);
  });

  it.each<StoreFault>(["lost", "unheard"])(
    "does not break a task because the store is away when its run begins: %s",
    async (kind) => {
      let id = "";
      let faults = 3;
      const begins = faultyStore(await stage.open(), ({ do: operations }) =>
        operations.some(({ op, key }) => op === "put" && key === keys.ofStatus("STARTING", id)) &&
        faults-- > 0
          ? kind
          : undefined,
      );
      const events: string[] = [];
      await using node = await startNode(begins, `node_begins_${kind}`);
      node.on("run", () => events.push("run"));
      node.on("end", () => events.push("end"));
      id = await create();
      await cluster.tasks.start(id);
      await becomes(id, { status: "COMMANDRUNNING", reason: "" });
      expect(faults).toBeLessThanOrEqual(0);
      expect(events).toEqual(["run"]);
      await cluster.tasks.stop(id);
      await becomes(id, { status: "STOP" });
      await cluster.tasks.remove(id);
    },
  );

  it("registers a node again whose record was deleted", async () => {
    await using node = await startNode(await stage.open(), "node_deleted");
    let lost = 0;
    node.on("lost", () => lost++);
    const key = keys.node("redissyncer", "node_deleted");
    const before = await store.get(key);
    await store.delete(key);
    await eventually(async () => {
      const now = await store.get(key);
      expect(now?.lease).toBeDefined();
      expect(now?.lease).not.toBe(before?.lease);
    });
    expect(lost).toBe(1);
  });

  it("says once that another process has the id of a node, and registers it again after that", async () => {
    const warnings: string[] = [];
    const logger = {
      ...silentLogger,
      warn: (about: object) => warnings.push(JSON.stringify(about)),
    };
    await using node = await startNode(await stage.open(), "node_taken", { logger });
    const key = keys.node("redissyncer", "node_taken");
    const { id: lease } = await store.grant(600_000);
    const ours = JSON.parse((await store.get(key))?.value ?? "{}") as object;
    const theirs = JSON.stringify({ ...ours, nodeaddr: "10.0.0.9", nodeport: 7 });
    await store.delete(key);
    await store.put(key, theirs, lease);
    await eventually(() => expect(warnings.join()).toContain("online at 10.0.0.9:7"));
    const registering = new Promise<void>((resolve) => node.on("registered", () => resolve()));
    await store.delete(key);
    await registering;
    expect(warnings).toHaveLength(1);
  });

  it("finishes the removal of a task whose portal died half way, and leaves others alone", async () => {
    let id = "";
    const dying = faultyStore(await stage.open(), ({ do: operations }) =>
      operations.some(({ op, key }) => op === "delete" && key.startsWith(keys.events(id)))
        ? "lost"
        : undefined,
    );
    const kept = await create();
    // More tasks than a round looks at, so that the sweep goes on where it stopped.
    const others = await Promise.all(Array.from({ length: 30 }, () => create()));
    id = await create();
    await store.put(keys.bigKey(id, "big"), "{}");
    await store.put(keys.discarded(id, "0_a"), "{}");
    await new Cluster(dying, { secrets }).tasks.remove(id);
    await expect(cluster.tasks.get(id)).rejects.toMatchObject({ code: "UNKNOWN_TASK" });
    const left = async (of: string) =>
      (await rangeAll(store, "/tasks/")).entries.filter(({ key }) => key.includes(`/${of}/`));
    expect(await left(id)).not.toEqual([]);
    const sweeping = { id: "portal_sweeps", address: "", everyMs: 100 };
    await using _inspector = await cluster.inspector(sweeping).start();
    await eventually(async () => expect(await left(id)).toEqual([]), { withinMs: 15_000 });
    for (const one of [kept, ...others]) {
      expect(await cluster.tasks.records.events(one)).toHaveLength(1);
      await cluster.tasks.remove(one);
    }
  });

  it("pages through records of keys with any name", async () => {
    const id = await create();
    const names = [
      "user:{1}",
      "a/b c",
      "\u{1F600}~%!*'()",
      "\u4f60\u597d",
      "plain",
      '"quoted"',
      "a\u0000b",
    ];
    const at = Date.now();
    const put = (kind: "bigKeys" | "discarded", key: string) =>
      cluster.tasks.records.keyOperation(kind, id, { key, command: "split", type: "hash", at });
    for (const kind of ["bigKeys", "discarded"] as const) {
      await store.txn({ do: names.map((key) => put(kind, key)) });
      const seen: string[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await cluster.tasks.records.page(kind, id, { cursor, limit: 1 });
        seen.push(...page.items.map(({ key }) => key));
        cursor = page.cursor;
        if (cursor === undefined) break;
      }
      expect(seen.sort()).toEqual([...names].sort());
    }
    await store.put("/tasks/taskid/not ours {~}", "foreign");
    for (let cursor: string | undefined; ; ) {
      ({ cursor } = await cluster.tasks.list({ cursor, limit: 1 }));
      if (cursor === undefined) break;
    }
    await store.delete("/tasks/taskid/not ours {~}");
    for (const cursor of ["a", "L2E", "AGE", "a".repeat(5_000), "{}"]) {
      await expect(cluster.tasks.list({ cursor })).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
      });
    }
    await cluster.tasks.remove(id);
  });

  it("encrypts the password of an edited configuration", async () => {
    const id = await create();
    const config = { everyMs: 100, target: "redis://user:edited-in@127.0.0.1:1" };
    const edited = await cluster.tasks.edit(id, { config, local: true });
    expect(edited.config).toMatchObject({ target: "redis://user@127.0.0.1:1" });
    const { entries } = await rangeAll(store, "/tasks/");
    expect(entries.filter(({ value }) => value.includes("edited-in"))).toEqual([]);
    expect(secrets.open(await cluster.tasks.get(id), id)).toEqual(config);
    await cluster.tasks.remove(id);
  });

  it("moves no task to a node that is drained or offline", async () => {
    await using _node = await startNode(await stage.open(), "node_drained");
    await cluster.nodes.drain("node_drained");
    const id = await create();
    const gone = JSON.stringify({ nodeid: "node_gone", online: false });
    await store.put(keys.node("redissyncer", "node_gone"), gone);
    await expect(cluster.tasks.move(id, "node_gone")).rejects.toMatchObject({
      code: "UNKNOWN_NODE",
    });
    await expect(cluster.tasks.move(id, "node_drained")).rejects.toMatchObject({
      code: "PROTECTED",
    });
    await cluster.nodes.undrain("node_drained");
    expect(await cluster.tasks.move(id, "node_drained")).toMatchObject({ nodeId: "node_drained" });
    await cluster.tasks.remove(id);
  });

  it("bounds the events of a task that no node runs", async () => {
    const id = await create();
    const old = Array.from({ length: 240 }, (_, n) => `0000_${n}`);
    await Promise.all(old.map((name) => store.put(keys.event(id, name), "{}")));
    for (let n = 0; n < 26; n++) {
      await cluster.tasks.start(id);
      await cluster.tasks.stop(id);
    }
    const { entries } = await store.range(keys.events(id));
    expect(entries.length).toBeLessThanOrEqual(250);
    await cluster.tasks.remove(id);
  });
});
