import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("both receivers get the whole log", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
  expect(printed).toEqual(["access.log: 404 1000, 200 9000", "both have the whole file"]);
}, 60_000);
