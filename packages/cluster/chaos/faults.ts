/**
 * Kills, stops and restarts nodes, portals and etcd members at random. Meanwhile scripted tasks increment
 * fenced counters at a target, and sync tasks copy sources under constant writes (sync-load.ts).
 *
 *   3 portals ---- 3 etcd members ---- N nodes ---- target Redis: fence, counter and epochs per task
 *                                         '-------- source and target of each sync task
 *
 * At the end every task must exist with all its indexes, and every immortal one must run again. The epochs
 * written at a target must never decrease. Copies must equal their sources, and moved sync tasks must have
 * resumed without a full synchronisation. No two inspections may belong to one round. No task may have been
 * idle for longer than a limit, whatever its status. A node that was stopped and resumed does not notice
 * that it was replaced, so targets must refuse each of its writers.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, silentLogger } from "@ropeway/core";
import {
  type Etcd,
  eventually,
  type Script,
  spawnScript,
  startEtcd,
  startRedis,
} from "@ropeway/testkit";
import { Cluster } from "../src/cluster.ts";
import { keys } from "../src/keys.ts";
import { rangeAll } from "../src/record.ts";
import { SecretBox } from "../src/secrets.ts";
import { openEtcdStore } from "../src/store/etcd/etcd-store.ts";
import type { Store } from "../src/store/store.ts";
import { taskOf } from "../src/tasks/task.ts";
import type { FaultReport } from "./fault-report.ts";
import { IdleWatch } from "./idle-watch.ts";
import { SyncLoad } from "./sync-load.ts";

const MEMBER = new URL("../test/member.fixture.ts", import.meta.url);

/** The number of tasks, members and faults. */
export interface FaultPlan {
  /** Scripted tasks, and sync tasks. */
  readonly tasks: number;
  readonly syncs: number;
  readonly nodes: number;
  readonly portals: number;
  /**
   * The faults, in order: kill a node, stop one for longer than its lease, kill a portal, kill the leader,
   * or stop the whole store for longer than a lease.
   */
  readonly faults: readonly Fault[];
  readonly leaseMs: number;
  /** The minimum time for which a node is stopped. */
  readonly stopMs: number;
  /** The maximum time for which a task may not run. */
  readonly idleMs: number;
  readonly seed: number;
}

export type Fault = "kill-node" | "stop-node" | "kill-portal" | "kill-leader" | "stop-store";

interface Stage {
  readonly etcd: Etcd;
  readonly store: Store;
  readonly cluster: Cluster;
  readonly nodes: Map<string, Script>;
  readonly portals: Map<string, Script>;
  spawn(kind: "node" | "portal", id: string): Promise<Script>;
}

/** Runs the test. */
export async function chaosFaults(plan: FaultPlan): Promise<FaultReport> {
  const random = randomFrom(plan.seed);
  const etcd = await startEtcd({ members: 3 });
  const target = await startRedis();
  const loads = await Promise.all(Array.from({ length: plan.syncs }, () => SyncLoad.start()));
  const store = await openEtcdStore({ endpoints: etcd.urls, logger: silentLogger });
  const secrets = new SecretBox("00".repeat(32));
  const cluster = new Cluster(store, { secrets });
  const url = `etcd://${etcd.members.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
  const stage: Stage = {
    etcd,
    store,
    cluster,
    nodes: new Map(),
    portals: new Map(),
    async spawn(kind, id) {
      const script = await spawnScript(MEMBER, { args: [kind, url, id, String(plan.leaseMs)] });
      await script.waitForLine(/^ready/, { withinMs: 60_000 });
      return script;
    },
  };
  const abort = new AbortController();
  const closing: (() => Promise<void>)[] = [];
  try {
    const inspections = watchInspections(store, abort.signal);
    await Promise.all([
      ...names("node", plan.nodes).map(async (id) =>
        stage.nodes.set(id, await stage.spawn("node", id)),
      ),
      ...names("portal", plan.portals).map(async (id) =>
        stage.portals.set(id, await stage.spawn("portal", id)),
      ),
    ]);
    const ids: string[] = [];
    for (let n = 0; n < plan.tasks; n++) {
      const config = { target: target.url, everyMs: 50 };
      const wish = { name: `chaos ${n}`, type: "scripted", config, local: true };
      ids.push((await cluster.tasks.create({ ...wish, immortal: true, start: true })).task.taskId);
    }
    const all = [...ids];
    for (const [n, load] of loads.entries()) all.push(await load.create(cluster, `sync ${n}`));
    await allRun(cluster, all, 60_000);
    const takeOverMs: number[] = [];
    let [oldWriters, refused] = [0, 0];
    const idle = await IdleWatch.start(target.url, ids);
    closing.push(() => idle.close());
    for (const fault of plan.faults) {
      const effect = await apply(stage, fault, { random, ...plan });
      if (effect.awayMs !== undefined) idle.excuse(effect.awayMs);
      await allRun(cluster, all, 60_000);
      if (effect.movedMs !== undefined) takeOverMs.push(effect.movedMs);
      oldWriters += effect.oldWriters ?? 0;
      refused += effect.refused ?? 0;
    }
    return {
      oldWriters,
      refused,
      idleMs: plan.idleMs,
      ...(await examine(stage, { ids, all, url: target.url })),
      ...inspections(),
      created: all.length,
      takeOverMs,
      faults: plan.faults.length,
      longestIdleMs: idle.longestMs,
      syncs: await Promise.all(loads.map((load) => load.examine())),
    };
  } finally {
    abort.abort();
    for (const close of closing) await close();
    for (const script of [...stage.nodes.values(), ...stage.portals.values()]) await script.kill9();
    await store.close();
    await etcd.close();
    await target.close();
    for (const load of loads) await load.close();
  }
}

/** The effect of a fault. */
interface Effect {
  /** The time until the tasks of the node ran on other nodes. */
  readonly movedMs?: number | undefined;
  readonly oldWriters?: number;
  readonly refused?: number;
  /** The time without a store, in which tasks cannot run. */
  readonly awayMs?: number;
}

async function apply(
  stage: Stage,
  fault: Fault,
  { random, stopMs, leaseMs }: { random: () => number; stopMs: number; leaseMs: number },
): Promise<Effect> {
  const { nodes, portals, etcd } = stage;
  const pick = <T>(map: Map<string, T>) => [...map][Math.floor(random() * map.size)] as [string, T];
  if (fault === "kill-leader") {
    const leader = await etcd.leader();
    await leader.kill9();
    await sleep(1_000);
    await leader.start();
    return {};
  }
  if (fault === "stop-store") {
    // Every node loses its lease and stops its tasks. They start again when the store is back.
    const awayMs = leaseMs * 1.5;
    for (const member of etcd.members) member.pause();
    await sleep(awayMs);
    for (const member of etcd.members) member.resume();
    return { awayMs };
  }
  const [id, script] = pick(fault === "kill-portal" ? portals : nodes);
  if (fault === "kill-portal") {
    await script.kill9();
    portals.set(id, await stage.spawn("portal", id));
    return {};
  }
  const began = performance.now();
  const epochs = await runsOf(stage, id, script);
  const movedMs = async () => {
    await moved(stage, epochs);
    return epochs.size === 0 ? undefined : Math.round(performance.now() - began);
  };
  if (fault === "stop-node") return stopNode(script, { epochs, movedMs, stopMs });
  await script.kill9();
  const effect = { movedMs: await movedMs() };
  nodes.set(id, await stage.spawn("node", id));
  return effect;
}

/** Stops a node until its tasks run on other nodes, resumes it, and waits until targets refuse its writers. */
async function stopNode(
  script: Script,
  plan: {
    readonly epochs: ReadonlyMap<string, number>;
    readonly stopMs: number;
    movedMs(): Promise<number | undefined>;
  },
): Promise<Effect> {
  const { epochs, stopMs } = plan;
  const began = performance.now();
  script.signal("SIGUSR2");
  await script.waitForLine(/^deaf true/);
  script.pause();
  const movedMs = await plan.movedMs();
  await sleep(Math.max(0, stopMs - (performance.now() - began)));
  script.resume();
  const refusals = await Promise.allSettled(
    [...epochs].map(([taskId, epoch]) =>
      script.lines.find(new RegExp(`^refused ${taskId} ${epoch}$`), { from: 0, withinMs: 30_000 }),
    ),
  );
  const refused = refusals.filter(({ status }) => status === "fulfilled").length;
  script.signal("SIGUSR2");
  await script.waitForLine(/^deaf false/);
  return { movedMs, oldWriters: epochs.size, refused };
}

/**
 * Waits until a node runs all its tasks and returns their epochs. After the previous fault a node may have lost its
 * lease and ended its runs while the store still lists them as running.
 */
async function runsOf(
  { cluster }: Stage,
  nodeId: string,
  script: Script,
): Promise<Map<string, number>> {
  return eventually(
    async () => {
      const { items } = await cluster.tasks.list({ node: nodeId, limit: 500 });
      const lines = new Set(script.lines.tail(Number.POSITIVE_INFINITY).split("\n"));
      for (const { taskId, epoch } of items) {
        if (lines.has(`run ${taskId} ${epoch}`) && !lines.has(`end ${taskId} ${epoch}`)) continue;
        throw new Error(`${nodeId} does not run ${taskId} with epoch ${epoch}`);
      }
      return new Map(items.map(({ taskId, epoch }) => [taskId, epoch]));
    },
    { withinMs: 60_000 },
  );
}

/** Waits until every task runs with a later epoch. */
async function moved({ cluster }: Stage, epochs: ReadonlyMap<string, number>): Promise<void> {
  await eventually(
    async () => {
      for (const [taskId, epoch] of epochs) {
        const task = await cluster.tasks.get(taskId);
        if (task.epoch <= epoch || task.status !== "COMMANDRUNNING") {
          throw new Error(`${taskId} is ${task.status} on ${task.nodeId} with epoch ${task.epoch}`);
        }
      }
    },
    { withinMs: 60_000 },
  );
}

async function allRun(cluster: Cluster, ids: readonly string[], withinMs: number): Promise<void> {
  await eventually(
    async () => {
      for (const id of ids) {
        const { status, nodeId, reason } = await cluster.tasks.get(id);
        if (status !== "COMMANDRUNNING")
          throw new Error(`${id} is ${status} on ${nodeId}: ${reason}`);
      }
    },
    { withinMs },
  );
}

async function examine(
  { store, cluster }: Stage,
  { ids, all, url }: { ids: readonly string[]; all: readonly string[]; url: string },
) {
  const redis = await connect(url);
  try {
    const count = async (id: string) =>
      Number(await redis.send(["GET", `ropeway:scripted:{${id}}:count`]));
    const first = await Promise.all(ids.map(count));
    let growing = 0;
    // A status does not prove that a task runs. idle-watch.ts limits how long it may be wrong.
    for (let tries = 0; tries < 60 && growing < ids.length; tries++) {
      await sleep(500);
      const now = await Promise.all(ids.map(count));
      growing = now.filter((value, index) => value > (first[index] ?? 0)).length;
    }
    let [present, indexed, running, epochs, wentBack] = [0, 0, 0, 0, 0];
    for (const id of all) {
      const task = await cluster.tasks.get(id);
      present += 1;
      running += task.status === "COMMANDRUNNING" ? 1 : 0;
      indexed += (await isIndexed(store, id)) ? 1 : 0;
      const list = await redis.send<readonly string[]>([
        "LRANGE",
        `ropeway:scripted:{${id}}:epochs`,
        "0",
        "-1",
      ]);
      const wrote = list.map(Number);
      epochs += new Set(wrote).size;
      wentBack += wrote.filter(
        (epoch, index) => index > 0 && epoch < (wrote[index - 1] ?? 0),
      ).length;
    }
    return { present, indexed, running, growing, epochs, wentBack };
  } finally {
    await redis.close();
  }
}

/** Whether a task has all its indexes, and no index of another status. */
async function isIndexed(store: Store, id: string): Promise<boolean> {
  for (let tries = 0; tries < 20; tries++) {
    const before = await store.get(keys.task(id));
    const task = taskOf(before);
    const paths = new Set((await rangeAll(store, "/tasks/")).entries.map(({ key }) => key));
    // A run may change its task at any time. The task and the paths are then inconsistent.
    if ((await store.get(keys.task(id)))?.modRevision !== before?.modRevision) continue;
    if (task === undefined) return false;
    const own = [
      keys.ofNode(task.nodeId, id),
      keys.ofGroup(task.groupId, id),
      keys.ofStatus(task.status, id),
      keys.ofName(task.taskName),
      keys.ofType(task.type, id),
      keys.ofMd5(task.md5),
    ];
    const statuses = [...paths].filter(
      (key) => key.startsWith("/tasks/status/") && key.endsWith(`/${id}`),
    );
    return statuses.length === 1 && own.every((path) => paths.has(path));
  }
  return false;
}

/** Counts the inspections in the history of the store. */
function watchInspections(store: Store, signal: AbortSignal) {
  const times: number[] = [];
  void (async () => {
    const { revision } = await store.status();
    const prefix = keys.lastInspection;
    for await (const events of store.watch({ prefix, from: revision + 1, signal })) {
      for (const { entry } of events) times.push(Number(entry.value));
    }
  })().catch(() => {});
  return () => {
    const gaps = times.slice(1).map((time, index) => time - (times[index] ?? time));
    return {
      inspections: times.length,
      // A deletion may start a round at once. Two rounds with the same time are one round done twice.
      doubled: gaps.filter((gap) => gap <= 0).length,
      longestGapMs: Math.max(0, ...gaps),
    };
  };
}

function names(kind: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${kind}_${index + 1}`);
}

/** Repeatable random numbers (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
