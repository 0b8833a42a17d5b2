import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../../src/task.ts";
import { le64, len, rdb, str } from "../rdb/build.ts";

test.each(["replace", "keep"] as const)(
  "a large value that expires while it is written is no error (existing: %s)",
  async (existing) => {
    await using target = await startRedis();
    const elements = Array.from({ length: 60 }, (_, i) => str(`${i}${"x".repeat(1_000)}`));
    const file = join(target.dir, "source.rdb");
    const at = Date.now() + 1_500;
    const list = [252, le64(at), 1, str("list"), len(60), ...elements.flat()];
    writeFileSync(file, rdb("REDIS0010", 254, 0, ...list, 0, str("after"), str("1")));
    await using task = new SyncTask({
      ...{ from: `file:${file}`, to: target.url, mode: "stock", existing },
      ...{ bigBytes: 8_192, batchBytes: 8_192, bytesPerS: 20_000 },
    });
    await task.start();
    const { errors, keys } = await task.finished;
    expect(Date.now()).toBeGreaterThan(at);
    expect({ errors, keys }).toEqual({ errors: 0, keys: 2 });
    await eventually(async () => expect(await target.command("KEYS", "[^r]*")).toEqual(["after"]));
    expect(await target.command("KEYS", "ropeway:tmp:*")).toEqual([]);
  },
  30_000,
);
