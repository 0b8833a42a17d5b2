/** An immortal task moves to another node; its old run can no longer write. */
import {
  Cluster,
  ClusterNode,
  openRedisStore,
  type Run,
  type Runner,
  SecretBox,
} from "@ropeway/cluster";
import { connect } from "@ropeway/core";

const redis = await connect(process.env.REDIS_URL);
const store = openRedisStore(redis, { prefix: `example:${process.pid}` });
const secrets = new SecretBox(undefined); // these tasks have no passwords

/** A target that remembers the highest epoch it has seen, as a database column would. */
class Target {
  #epoch = 0;

  write(epoch: number): boolean {
    if (epoch < this.#epoch) return false;
    this.#epoch = epoch;
    return true;
  }
}

const target = new Target();
const runs: Run[] = [];

const beacon: Runner = {
  type: "beacon",
  validate: (config) => config,
  async run(task) {
    runs.push(task);
    task.phase("COMMANDRUNNING");
    while (!task.signal.aborted && target.write(task.epoch)) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  },
};

function startNode(id: string): Promise<ClusterNode> {
  const node = new ClusterNode(store, { id, address: "", runners: [beacon], secrets });
  node.on("run", (_taskId, epoch) => console.log(`runs on ${id}: ${target.write(epoch)}`));
  return node.start();
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 20));
}

const cluster = new Cluster(store, { secrets, runners: [beacon] });
const inspector = await cluster.inspector({ id: "portal_1", address: "", everyMs: 200 }).start();
const first = await startNode("node_1");
const wish = { name: "lighthouse", type: "beacon", config: {}, immortal: true, start: true };
const { task } = await cluster.tasks.create(wish);
await until(() => runs.length === 1);

const second = await startNode("node_2");
await first.close();
await until(() => runs.length === 2);
console.log(`an old run writes: ${target.write(runs[0]?.epoch ?? 0)}`);

await cluster.tasks.stop(task.taskId);
await second.close();
await inspector.close();
console.log(`at the end: ${(await cluster.tasks.get(task.taskId)).status}`);
await store.close();
await redis.close();
