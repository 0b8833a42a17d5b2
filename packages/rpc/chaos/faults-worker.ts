/** A worker for the fault runs. Arguments: `url node ns record`. Counts each run of a call in a Redis without faults. */
import { connect } from "@ropeway/core";
import { type CallContext, RpcServer } from "../src/index.ts";

const [url = "", node = "", ns = "", record = ""] = process.argv.slice(2);
const redis = await connect(url, { heartbeatMs: 200, deadAfterMs: 1_000 });
const counter = await connect(record);

/** Counts a run. The command is not repeated, because a repetition would look like a second run. */
async function ran(id: string): Promise<void> {
  await counter.send(["HINCRBY", "runs", id, "1"], { key: "runs" });
}

const options = { ns, heartbeatMs: 300 };
const plain = new RpcServer(redis, { ...options, node, group: "g" }).add("plain", {
  echo: ([value]: unknown[]) => value,
  work: async ([id]: [string]) => {
    await ran(id);
    await new Promise((resolve) => setTimeout(resolve, 20));
    return id;
  },
  epoch: async ([id]: [string], { session }: CallContext) => {
    await ran(id);
    await new Promise((resolve) => setTimeout(resolve, 20));
    return session?.epoch;
  },
  async *count([n]: [number]) {
    for (let i = 1; i <= n; i++) yield i;
  },
});
const safe = new RpcServer(redis, { ...options, node, atLeastOnce: true, maxRuns: 100 });
safe.add("safe", {
  async *count([n]: [number]) {
    // Messages have a different size in each run, so that mixing two runs is detected.
    const size = 1 + Math.floor(Math.random() * 9);
    for (let i = 1; i <= n; i++) {
      yield i;
      if (i % size === 0) await new Promise((resolve) => setTimeout(resolve, size));
    }
  },
  work: async ([id]: [string]) => {
    await ran(id);
    await new Promise((resolve) => setTimeout(resolve, 20));
    return id;
  },
});
for (const server of [plain, safe]) server.on("error", () => {}); // outages are intended
await Promise.all([plain.start(), safe.start()]);
process.stdout.write("ready\n");
