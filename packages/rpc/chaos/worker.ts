/** A worker for the fault runs. Arguments: `url node`. Serves plain and durable methods and a long stream. */
import { connect } from "@ropeway/core";
import { RpcServer } from "../src/index.ts";

const [url = "", node = ""] = process.argv.slice(2);
const redis = await connect(url);
const options = { ns: "chaos", node, heartbeatMs: 500 };
const plain = new RpcServer(redis, options).add("plain", {
  echo: ([value]: unknown[]) => value,
  async *count([n]: [number]) {
    for (let i = 1; i <= n; i++) yield i;
  },
});
const durable = new RpcServer(redis, { ...options, atLeastOnce: true, concurrency: 64 });
durable.add("safe", {
  work: async ([number, ms]: [number, number]) => {
    await redis.send(["HINCRBY", "runs", String(number), "1"], { key: "runs" });
    await new Promise((resolve) => setTimeout(resolve, ms));
    return number;
  },
});
await Promise.all([plain.start(), durable.start()]);
process.stdout.write("ready\n");
