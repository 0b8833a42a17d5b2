import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("two services push each run of a schedule once, until it ends", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
  expect(printed).toEqual([
    'run 1 of report: {"kind":"weekly"}',
    'run 2 of report: {"kind":"weekly"}',
    'run 3 of report: {"kind":"weekly"}',
    "the schedule has ended after 3 runs",
  ]);
}, 60_000);
