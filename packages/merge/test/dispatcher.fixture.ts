// A dispatcher in a separate process, to be killed.
import { connect } from "@ropeway/core";
import { HttpDispatcher, MergeQueue } from "@ropeway/merge";

const [url = "", prefix = "", leaseMs = "3000"] = process.argv.slice(2);
const redis = await connect(url);
const queue = new MergeQueue(redis, { prefix });
await new HttpDispatcher(queue, {
  allow: ["loopback"],
  breaker: { threshold: 1_000_000 },
  timeoutMs: Number(leaseMs) - 1_000,
  leaseMs: Number(leaseMs),
  reserveMs: 500,
  attempts: 200,
  backoff: { delayMs: 20, maxMs: 200 },
}).start();
process.stdout.write("ready\n");
