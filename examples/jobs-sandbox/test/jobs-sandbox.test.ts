import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("a job that never ends is killed, and the others run", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
  expect(printed).toEqual(["primes: 9592", "forever: JOB_TIMEOUT", "primes: 168"]);
}, 120_000);
