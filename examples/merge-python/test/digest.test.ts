import { execFile, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { connect } from "@ropeway/core";
import { HttpDispatcher, MergeQueue } from "@ropeway/merge";
import { MergeServer } from "@ropeway/portal";
import { startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

const run = promisify(execFile);
const DIGEST = fileURLToPath(new URL("../digest.py", import.meta.url));
const python = spawnSync("python3", ["--version"]).status === 0;

test.skipIf(!python)(
  "Python pushes by HTTP and by plain Redis, and gets both in one signed request",
  async () => {
    const key = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
    await using server = await startRedis({ password: "open sesame" });
    await using redis = await connect(server.url);
    await using queue = new MergeQueue(redis);
    await using service = await new MergeServer(queue, { port: 0, allow: ["loopback"] }).start();
    await using _ = await new HttpDispatcher(queue, {
      allow: ["loopback"],
      signingKeys: [key],
    }).start();
    const env = { ...process.env, MERGE_URL: service.url, REDIS_URL: server.url, WEBHOOK_KEY: key };
    const { stdout } = await run("python3", [DIGEST], { env });
    expect(JSON.parse(stdout)).toEqual([{ by: "http" }, { by: "redis" }]);
  },
  60_000,
);
