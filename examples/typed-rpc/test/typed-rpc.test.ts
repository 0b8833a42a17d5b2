import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("lends, indexes with progress, streams, talks both ways, and refuses what does not fit", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
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

test("refuses strangers, serves two versions, says what is left, and keeps a cart on one node", async () => {
  await using server = await startRedis();
  const shop = new URL("../src/shop.ts", import.meta.url);
  const printed = await runScript(shop, { env: { REDIS_URL: server.url } });
  expect(printed).toEqual([
    "who are you?",
    "old order of lamp",
    "ann ordered 2 x lamp",
    "only 3 left",
    "lamp, chair",
  ]);
}, 60_000);
