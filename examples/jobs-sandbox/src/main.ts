/** Typed jobs whose handlers run in processes of their own; one of them never ends and is killed. */
import { connect } from "@ropeway/core";
import { JobTimeoutError, Queue, Worker } from "@ropeway/jobs";
import { jobs } from "./jobs.ts";

const redis = await connect(process.env.REDIS_URL);
const queue = new Queue(redis, "numbers", { jobs });
const handlers = new URL("./handlers.ts", import.meta.url);
const worker = new Worker(redis, "numbers", handlers, {
  jobs,
  concurrency: 2,
  sandbox: { memoryMb: 256, startWithinMs: 60_000 },
});

console.log("primes:", await queue.run("primes", { below: 100_000 }));

const forever = await queue.add("forever", undefined, { timeoutMs: 500, awaited: true });
const error = await forever.result().catch((reason: unknown) => reason);
console.log("forever:", error instanceof JobTimeoutError ? error.code : error);

console.log("primes:", await queue.run("primes", { below: 1_000 }));

await worker.close();
await queue.close();
await redis.close();
