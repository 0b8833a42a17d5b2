import { spawnScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("the report is written when all its parts are there", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  await using script = await spawnScript(main, { env: { REDIS_URL: server.url } });
  expect(await script.exited).toEqual({ code: 0, signal: null });
  const printed: string[] = [];
  for await (const line of script.lines) printed.push(line);
  expect(printed).toEqual(["fetch south: south is not ready yet", "Sales: 500"]);
}, 60_000);
