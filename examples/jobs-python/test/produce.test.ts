import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { connect } from "@ropeway/core";
import { Worker } from "@ropeway/jobs";
import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("what the Python program adds is run by a worker, in order", async () => {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  const seen: string[] = [];
  await using _worker = new Worker<{ thumbnail: { data: { file: string } } }>(redis, "thumbnails", {
    thumbnail: (job) => void seen.push(job.data.file),
  });
  const program = fileURLToPath(new URL("../produce.py", import.meta.url));
  const args = [program, "thumbnails", "cat.png", "dog.png"];
  const env = { ...process.env, REDIS_URL: server.url };
  const { stdout } = await promisify(execFile)("python3", args, { env });
  expect(stdout.trim().split("\n")).toHaveLength(2);
  await eventually(() => expect(seen).toEqual(["cat.png", "dog.png"]));
});
