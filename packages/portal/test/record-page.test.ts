import { openRedisStore, type Store } from "@ropeway/cluster";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { recordPage } from "../src/access/record-page.ts";

const { redis } = await redisForFile();

test("a short page of few records among many takes a few reads", async () => {
  await using store = openRedisStore(redis);
  const names = Array.from({ length: 400 }, (_, n) => String(n).padStart(3, "0"));
  for (let n = 0; n < 400; n += 100) {
    const part = names.slice(n, n + 100);
    await store.txn({ do: part.map((name) => ({ op: "put", key: `/r/${name}`, value: name })) });
  }
  let reads = 0;
  const counting = {
    range: (...given: Parameters<Store["range"]>) => {
      reads += 1;
      return store.range(...given);
    },
  } as Store;
  const wanted = ["007", "250", "399"];
  const request = {
    prefix: "/r/",
    limit: 1,
    itemOf: ({ value }: { value: string }) => (wanted.includes(value) ? value : undefined),
  };
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await recordPage(counting, { ...request, cursor });
    found.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined && found.length < 10);
  expect(found).toEqual(wanted);
  expect(reads).toBeLessThanOrEqual(6);
});
