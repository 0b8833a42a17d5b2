/**
 * The scale run: `npm run bench -- cluster`. It runs 1,000 tasks on 20 nodes with a real etcd. 19 nodes run
 * in this process. One has its own process, which is killed. Unlike the other benches it has no peers. The
 * bars are times that an operator waits with the default settings.
 *
 * A create is one transaction, so it cannot be faster than etcd on this disk. After every create the run
 * measures a bare transaction of the same size. If that is slow, the bar is a multiple of it.
 */
import { open as openFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@ropeway/core";
import { eventually, spawnScript, startEtcd } from "@ropeway/testkit";
import { Cluster } from "../src/cluster.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import { openEtcdStore } from "../src/store/etcd/etcd-store.ts";
import type { Store } from "../src/store/store.ts";
import type { Task } from "../src/tasks/task.ts";

const quick = process.argv.includes("--quick");
const TASKS = quick ? 200 : 1_000;
const NODES = 20;
const VICTIM = "node_victim";
const MEMBER = new URL("../test/member.fixture.ts", import.meta.url);
/** The sizes of the values in a create: the task, its six indexes, offset and event. */
const BARE_SIZES = [700, 60, 40, 40, 90, 90, 90, 80, 120] as const;
const say = (line: string) => process.stdout.write(`${line}\n`);

const etcd = await startEtcd();
const open = () => openEtcdStore({ endpoints: etcd.urls, logger: silentLogger });
const secrets = new SecretBox("00".repeat(32));
const store = await open();
const cluster = new Cluster(store, { secrets });
const nodes = await Promise.all(
  Array.from({ length: NODES - 1 }, async (_, index) =>
    new ClusterNode(await open(), {
      id: `node_${index + 1}`,
      address: "",
      runners: [scriptedRunner()],
      secrets,
    }).start(),
  ),
);
const url = `etcd://127.0.0.1:${etcd.first.port}`;
const victim = await spawnScript(MEMBER, { args: ["node", url, VICTIM, "8000"] });
await victim.waitForLine(/^ready/, { withinMs: 60_000 });
const inspector = await cluster.inspector({ id: "portal_bench", address: "" }).start();

const latencies: number[] = [];
const bare: number[] = [];
const calls = new Map<string, number>();
const creator = new Cluster(counted(store, calls), { secrets });
const wish = { type: "scripted", config: { everyMs: 60_000 }, immortal: true, start: true };
await creator.tasks.create({ name: "first", ...wish }); // takes the seed of the ids
calls.clear();
for (let n = 0; n < TASKS; n++) {
  let began = performance.now();
  await creator.tasks.create({ name: `bench ${n}`, ...wish });
  latencies.push(performance.now() - began);
  began = performance.now();
  await store.txn({
    do: BARE_SIZES.map((size, key) => ({
      op: "put",
      key: `/bench/${n % 100}/${key}`,
      value: "x".repeat(size),
    })),
  });
  bare.push(performance.now() - began);
}
say(`created ${TASKS} tasks in ${sum(latencies).toFixed(0)} ms`);
const perCreate = [...calls].map(([name, count]) => `${name} ${(count / TASKS).toFixed(2)}`);
say(`calls to the store per create: ${perCreate.join(", ")}`);
const disk = await syncs();
say(`sync of this disk: p50 ${at(disk, 0.5).toFixed(1)} ms, p99 ${at(disk, 0.99).toFixed(1)} ms`);
const created = await everyTask();
await eventually(async () => checkRunning(await everyTask()), {
  withinMs: 180_000,
  everyMs: 1_000,
});

const mine = created.filter(({ nodeId }) => nodeId === VICTIM).map(({ taskId }) => taskId);
const began = performance.now();
await victim.kill9();
await eventually(
  async () => {
    const tasks = await Promise.all(mine.map((id) => cluster.tasks.get(id)));
    if (tasks.some(({ nodeId }) => nodeId === VICTIM)) throw new Error("not moved yet");
    checkRunning(tasks);
  },
  { withinMs: 120_000, everyMs: 100 },
);
const takeOverMs = performance.now() - began;

const perNode = new Map<string, number>();
for (const { nodeId } of created) perNode.set(nodeId, (perNode.get(nodeId) ?? 0) + 1);
say(
  `tasks ${TASKS}, nodes ${NODES}, create p50 ${at(latencies, 0.5).toFixed(1)} ms, p99 ${at(latencies, 0.99).toFixed(1)} ms`,
);
say(
  `tasks per node ${Math.min(...perNode.values())} to ${Math.max(...perNode.values())}; moved ${mine.length}`,
);
const [createMs, bareMs] = [at(latencies, 0.99), at(bare, 0.99)];
say(`bare transaction p50 ${at(bare, 0.5).toFixed(1)} ms, p99 ${bareMs.toFixed(1)} ms`);
const ratio = createMs / bareMs;
// On a slow disk, a create may take 1.5 times as long as a bare transaction.
const mostMs = Math.max(50, bareMs * 1.5);
const bars = [
  bar("cluster.create.p99", createMs, mostMs),
  bar("cluster.takeover", takeOverMs, 15_000),
];
say(`create p99 is ${ratio.toFixed(2)} times that of a bare transaction in the same run`);
for (const one of bars) say(one);

await inspector.close();
await Promise.all(nodes.map((node) => node.close()));
await store.close();
await etcd.close();
process.exit(bars.some((one) => one.endsWith("FAIL")) ? 1 : 0);

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function bar(id: string, ms: number, most: number): string {
  return `BAR ${id} ${ms.toFixed(1)}ms <= ${most.toFixed(0)}ms ${ms <= most ? "PASS" : "FAIL"}`;
}

/** The quantile of the values at `part`. */
function at(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

/** The same store, with its calls counted by name. */
function counted(on: Store, calls: Map<string, number>): Store {
  return new Proxy(on, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        calls.set(String(name), (calls.get(String(name)) ?? 0) + 1);
        return value.apply(target, args);
      };
    },
  });
}

/** The times of 100 small writes, each synced to the disk that etcd uses. */
async function syncs(): Promise<number[]> {
  const path = join(tmpdir(), `ropeway-sync-${process.pid}`);
  const file = await openFile(path, "w");
  const times: number[] = [];
  for (let n = 0; n < 100; n++) {
    const began = performance.now();
    await file.write(Buffer.alloc(4_096));
    await file.datasync();
    times.push(performance.now() - began);
  }
  await file.close();
  await rm(path);
  return times;
}

async function everyTask(): Promise<Task[]> {
  const all: Task[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await cluster.tasks.list({ limit: 500, cursor });
    all.push(...page.items);
    cursor = page.cursor;
    if (cursor === undefined) return all;
  }
}

function checkRunning(tasks: readonly Task[]): void {
  const idle = tasks.filter(({ status }) => status !== "COMMANDRUNNING");
  if (idle.length > 0) throw new Error(`${idle.length} tasks are not running: ${idle[0]?.status}`);
}
