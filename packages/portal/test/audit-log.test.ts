import { openRedisStore } from "@ropeway/cluster";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { AuditLog } from "../src/access/audit-log.ts";

const { redis } = await redisForFile();

test("trimming keeps the newest entries, over any number of pages, and none below the bound", async () => {
  await using store = openRedisStore(redis);
  const log = new AuditLog(store);
  const about = { actor: "ann", via: "token", from: "127.0.0.1", action: "stop", requestId: "r" };
  for (let n = 0; n < 1_250; n += 50) {
    await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        log.begin({ ...about, path: `/api/tasks/${n + i}`, outcome: "done", status: 200 }),
      ),
    );
  }
  const newest = (await log.list({ limit: 500 })).items;
  await log.trim(120);
  const kept = await log.list({ limit: 500 });
  expect(kept.cursor).toBeUndefined();
  expect(kept.items).toEqual(newest.slice(0, 120));
  await log.trim(120);
  expect((await log.list({ limit: 500 })).items).toHaveLength(120);
}, 30_000);
