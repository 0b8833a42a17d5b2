/** Reads a long stream slowly. The memory of reader and Redis must not grow with the length of the stream. */
import { connect } from "@ropeway/core";
import { spawnScript, startRedis } from "@ropeway/testkit";
import { createClient } from "../src/index.ts";

const WORKER = new URL("./worker.ts", import.meta.url);
const MIB = 1024 * 1024;
const LOOK_EVERY = 10_000;

/** The results of a run. */
export interface StreamReport {
  readonly chunks: number;
  readonly received: number;
  readonly inOrder: boolean;
  /** The maximum growth of the reader, which is this process. */
  readonly grownMib: number;
  /** The maximum memory of Redis. */
  readonly redisMib: number;
}

/** Reads `chunks` chunks with pauses. */
export async function longStream(chunks: number): Promise<StreamReport> {
  await using server = await startRedis();
  await using worker = await spawnScript(WORKER, { args: [server.url, "n1"] });
  await worker.waitForLine(/^ready/, { withinMs: 30_000 });
  await using redis = await connect(server.url);
  await using client = await createClient(redis, { ns: "chaos" });
  const before = process.memoryUsage().rss;
  let received = 0;
  let inOrder = true;
  let grown = 0;
  let redisBytes = 0;
  for await (const item of client.stream("plain.count", [chunks])) {
    received += 1;
    inOrder &&= item === received;
    if (received % LOOK_EVERY !== 0) continue;
    grown = Math.max(grown, process.memoryUsage().rss - before);
    const info = await redis.send<string>(["INFO", "memory"]);
    redisBytes = Math.max(redisBytes, Number(/used_memory:(\d+)/.exec(info)?.[1]));
    await new Promise((resolve) => setTimeout(resolve, 5)); // makes the reader slow
  }
  const inMib = (bytes: number) => Math.ceil(bytes / MIB);
  return { chunks, received, inOrder, grownMib: inMib(grown), redisMib: inMib(redisBytes) };
}
