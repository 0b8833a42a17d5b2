import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("the task runs on the second node, and its old run is refused", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
  expect(printed).toEqual([
    "runs on node_1: true",
    "runs on node_2: true",
    "an old run writes: false",
    "at the end: STOP",
  ]);
}, 60_000);
