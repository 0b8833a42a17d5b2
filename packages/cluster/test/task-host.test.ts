/** A node that has many tasks to claim: several at once, each of them once. */
import { eventually } from "@ropeway/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { CompactedError } from "../src/errors.ts";
import { keys } from "../src/keys.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import type { NodeOptions } from "../src/options.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import type { Store, Transaction, WatchOptions } from "../src/store/store.ts";
import { taskOperations } from "../src/tasks/indexes.ts";
import { clusterForFile } from "./cluster-for-file.fixture.ts";
import { faultyStore } from "./faulty-store.fixture.ts";
import { gatedStore } from "./gated-store.fixture.ts";

const secrets = new SecretBox("00".repeat(32));
const { stage, store, cluster, becomes } = await clusterForFile({ secrets });
const ownerKey = /^\/tasks\/owner\//;

/** The task that a transaction claims. */
function claimOf({ do: operations }: Transaction): string | undefined {
  const claim = operations.find(({ op, key }) => op === "put" && ownerKey.test(key));
  return claim?.key.replace(ownerKey, "");
}

describe("a node with many tasks", () => {
  let names = 0;
  let ids: string[] = [];
  let nodes: ClusterNode[] = [];
  afterEach(async () => {
    await Promise.all(nodes.map((node) => node.close()));
    for (const id of ids) {
      await cluster.tasks.stop(id).catch(() => {});
      await cluster.tasks.remove(id);
    }
    ids = [];
    nodes = [];
  });

  const startNode = async (on: Store, id: string, options: Partial<NodeOptions> = {}) => {
    const node = new ClusterNode(on, {
      ...{ id, address: "", runners: [scriptedRunner()], secrets },
      ...{ leaseMs: 10_000, reportMs: 200, progressMs: 60_000, ...options },
    });
    nodes.push(node);
    return node.start();
  };

  /** Tasks that the node finds all together when it resumes. */
  const waitingTasks = async (count: number) => {
    for (let n = 0; n < count; n++) {
      const wish = { name: `many ${++names}`, type: "scripted", config: {}, start: true };
      ids.push((await cluster.tasks.create(wish)).task.taskId);
    }
    return ids;
  };

  it("claims several at once, within a bound, and each once", async () => {
    const claims: string[] = [];
    let open = false;
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = () => {
        open = true;
        resolve();
      };
    });
    const gated = gatedStore(await stage.open(), async (transaction) => {
      const taskId = claimOf(transaction);
      if (taskId === undefined) return;
      claims.push(taskId);
      if (!open) await gate;
    });
    const node = await startNode(gated, "node_many");
    await waitingTasks(40);
    await eventually(() => expect(claims.length).toBeGreaterThanOrEqual(16));
    // While those are under way, the portals write the tasks again: the node must not claim them twice.
    for (const id of ids) await cluster.tasks.edit(id, { immortal: true });
    expect(claims).toHaveLength(16);
    release();
    for (const id of ids) await becomes(id, { status: "COMMANDRUNNING" });
    expect(node.running).toBe(40);
    for (const id of ids) {
      const { epoch } = await cluster.tasks.get(id);
      expect((await store.get(keys.owner(id)))?.createRevision).toBe(epoch);
    }
  });

  it("lists its tasks again when the history that it watches is gone", async () => {
    let watches = 0;
    const compacted = new Proxy(await stage.open(), {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        if (name !== "watch") return value.bind(target);
        return async function* (options: WatchOptions) {
          if (++watches === 1) throw new CompactedError(options.from, options.from + 1);
          yield* target.watch(options);
        };
      },
    });
    await startNode(compacted, "node_behind");
    await eventually(() => expect(watches).toBeGreaterThan(0));
    const [id = ""] = await waitingTasks(1);
    await becomes(id, { status: "COMMANDRUNNING" });
  });

  it("says why a task is BROKEN that ran when its process died", async () => {
    const [id = ""] = await waitingTasks(1);
    const task = await cluster.tasks.get(id);
    const state = { nodeId: "node_died", status: "COMMANDRUNNING", desired: "run" } as const;
    await store.txn({ do: taskOperations(task, { ...task, ...state }) });
    await startNode(await stage.open(), "node_died");
    const reason = "node node_died restarted or lost its lease while the task was running";
    await becomes(id, { status: "BROKEN", desired: "stop", reason });
  });

  it("names the node that was lost when a task that was being handed over is BROKEN", async () => {
    const [id = ""] = await waitingTasks(1);
    const task = await cluster.tasks.get(id);
    const { id: lease } = await store.grant(60_000);
    const state = { nodeId: "node_taker", status: "COMMANDRUNNING", desired: "run" } as const;
    const owner = { nodeId: "node_giver", taskId: id };
    await store.txn({
      do: [
        ...taskOperations(task, { ...task, ...state }),
        { op: "put", key: keys.owner(id), value: JSON.stringify(owner), lease },
      ],
    });
    let looks = 0;
    const seen = gatedStore(await stage.open(), async ({ do: operations }) => {
      if (operations.some(({ op, key }) => op === "get" && key === keys.owner(id))) looks += 1;
    });
    await startNode(seen, "node_taker");
    await eventually(() => expect(looks).toBeGreaterThan(1));
    await store.revoke(lease);
    const reason = "node node_giver was lost before it had handed the task over to node node_taker";
    await becomes(id, { status: "BROKEN", desired: "stop", reason });
  });

  it("runs each once when the responses to claims are lost", async () => {
    const heard = new Set<string>();
    const faulty = faultyStore(await stage.open(), (transaction) => {
      const taskId = claimOf(transaction);
      if (taskId === undefined || heard.has(taskId)) return undefined;
      heard.add(taskId);
      return "unheard";
    });
    const runs: string[] = [];
    const node = await startNode(faulty, "node_deaf");
    node.on("run", (taskId) => runs.push(taskId));
    await waitingTasks(20);
    for (const id of ids) await becomes(id, { status: "COMMANDRUNNING" });
    expect(runs.sort()).toEqual([...ids].sort());
  });

  /** Gives 20 tasks to a node that runs `room` of them; resolves when it has refused the rest. */
  const overfill = async (node: ClusterNode, room: number) => {
    let most = 0;
    node.on("run", () => {
      most = Math.max(most, node.running + 1);
    });
    await node.pause();
    await startNode(await stage.open(), `${node.id}_rest`);
    await waitingTasks(20);
    for (const id of ids) await cluster.tasks.move(id, node.id).catch(() => {});
    node.resume();
    await eventually(async () => {
      const refused = (await cluster.tasks.list({ status: "CREATED" })).items;
      expect(refused).toHaveLength(20 - room);
      for (const { reason } of refused) expect(reason).toBe(`node ${node.id} is full`);
    });
    expect([node.running, most]).toEqual([room, room]);
  };

  it("never runs more than its maximum", async () => {
    await overfill(await startNode(await stage.open(), "node_three", { maxTasks: 3 }), 3);
  });

  it("never runs more than its maximum when responses arrive together", async () => {
    const waiting: (() => void)[] = [];
    const arrive = () => {
      for (const response of waiting.splice(0).reverse()) response();
    };
    const together = () =>
      new Promise<void>((resolve) => {
        if (waiting.push(resolve) === 1) setTimeout(arrive, 20);
      });
    const gated = gatedStore(await stage.open(), async () => {}, together);
    await overfill(await startNode(gated, "node_burst", { maxTasks: 3 }), 3);
  });

  it("gives a task back that it claimed, if the response came too late to find room", async () => {
    const heard = new Set<string>();
    const faulty = faultyStore(await stage.open(), (transaction) => {
      const taskId = claimOf(transaction);
      if (taskId === undefined || heard.has(taskId) || heard.size === 2) return undefined;
      heard.add(taskId);
      return "unheard";
    });
    await overfill(await startNode(faulty, "node_late", { maxTasks: 2 }), 2);
    expect((await store.range(keys.owners)).entries).toHaveLength(2);
  });
});
