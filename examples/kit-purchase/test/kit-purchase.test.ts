import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("one of a hundred buyers gets the item, and the money is right", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
  expect(printed).toEqual(["1 of 100 bought it; ann has 97, the buyer 3"]);
}, 60_000);
