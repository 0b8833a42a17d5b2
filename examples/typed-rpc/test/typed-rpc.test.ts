import { spawnScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("lends, indexes with progress, streams, talks both ways, and refuses what does not fit", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  await using script = await spawnScript(main, { env: { REDIS_URL: server.url } });
  expect(await script.exited).toEqual({ code: 0, signal: null });
  const printed: string[] = [];
  for await (const line of script.lines) printed.push(line);
  expect(printed).toEqual([
    "Emma: in 14 days",
    "50 %",
    "100 %",
    "2 books",
    "Emma, page 1",
    "Emma, page 2",
    "Emma, page 3",
    "GOOD MORNING",
    "GOOD NIGHT",
    "INVALID_PARAMS",
  ]);
}, 60_000);
