import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("the report is written when all its parts are there", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
  expect(printed).toEqual(["fetch south: south is not ready yet", "Sales: 500"]);
}, 60_000);
