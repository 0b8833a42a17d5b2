/** The process of the flooded portal. A separate process allows measuring its memory. */
import { connect } from "@ropeway/core";
import { MergeQueue } from "@ropeway/merge";
import { createPortal, jobsPart, mergePart, rpcPart } from "../src/index.ts";

const [redisUrl = "", password = ""] = process.argv.slice(2);
const redis = await connect(redisUrl);
const queue = new MergeQueue(redis, { prefix: "flood:{merge}" });
const portal = createPortal(redis, {
  adminPassword: password,
  requestTimeoutMs: 5_000, // slow bodies are cut within the run
  parts: [mergePart(queue), jobsPart(redis), rpcPart(redis)],
});
const { url } = await portal.start();
process.stdout.write(`ready ${url}\n`);
process.stdin.once("data", async () => {
  await portal.close();
  await queue.close();
  await redis.close();
  process.exit(0);
});
