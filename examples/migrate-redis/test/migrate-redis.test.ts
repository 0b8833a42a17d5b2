import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("everything arrives, although the copying is interrupted", async () => {
  await using source = await startRedis({
    config: ["repl-diskless-sync-delay 0", "repl-backlog-size 64mb"],
  });
  await using target = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const env = { SOURCE_URL: source.url, REDIS_URL: target.url };
  const printed = await runScript(main, { env });
  expect(printed.slice(-2)).toEqual([
    "resumed 1 times, copied anew 0 times",
    "1001 keys compared, 0 differ",
  ]);
  expect(await target.command("GET", "visits")).toBe(await source.command("GET", "visits"));
}, 60_000);
