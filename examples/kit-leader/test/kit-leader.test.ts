import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("each candidate leads once, and a late write is refused", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
  expect(printed).toEqual(["ann leads", "ben leads", "cem leads", "a late write was refused"]);
}, 60_000);
