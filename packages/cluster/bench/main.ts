/**
 * The scale run: `npm run bench -- cluster`. 1,000 tasks on 20 nodes, on a real etcd. 19 nodes live in
 * this process; one is a process of its own and is killed. Unlike the other benches it has no peers: the
 * bars are times that an operator waits, with the default settings.
 */
import { silentLogger } from "@ropeway/core";
import { eventually, spawnScript, startEtcd } from "@ropeway/testkit";
import { Cluster } from "../src/cluster.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import { openEtcdStore } from "../src/store/etcd/etcd-store.ts";
import type { Task } from "../src/tasks/task.ts";

const quick = process.argv.includes("--quick");
const TASKS = quick ? 200 : 1_000;
const NODES = 20;
const VICTIM = "node_victim";
const MEMBER = new URL("../test/member.fixture.ts", import.meta.url);
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
for (let n = 0; n < TASKS; n++) {
  const began = performance.now();
  await cluster.tasks.create({
    name: `bench ${n}`,
    type: "scripted",
    config: { everyMs: 60_000 },
    immortal: true,
    start: true,
  });
  latencies.push(performance.now() - began);
}
say(`created ${TASKS} tasks in ${sum(latencies).toFixed(0)} ms`);
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

latencies.sort((a, b) => a - b);
const at = (part: number) => latencies[Math.min(TASKS - 1, Math.floor(TASKS * part))] ?? 0;
const perNode = new Map<string, number>();
for (const { nodeId } of created) perNode.set(nodeId, (perNode.get(nodeId) ?? 0) + 1);
say(
  `tasks ${TASKS}, nodes ${NODES}, create p50 ${at(0.5).toFixed(1)} ms, p99 ${at(0.99).toFixed(1)} ms`,
);
say(
  `tasks per node ${Math.min(...perNode.values())} to ${Math.max(...perNode.values())}; moved ${mine.length}`,
);
const bars = [bar("cluster.create.p99", at(0.99), 50), bar("cluster.takeover", takeOverMs, 15_000)];
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
  return `BAR ${id} ${ms.toFixed(1)}ms <= ${most}ms ${ms <= most ? "PASS" : "FAIL"}`;
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
  if (idle.length > 0) throw new Error(`${idle.length} tasks do not run: ${idle[0]?.status}`);
}
