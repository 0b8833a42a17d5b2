import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";
import { le64, len, rdb, str } from "./rdb/build.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };
const RENAMES = 60;

test.each([
  ["that is closed", 1_000],
  ["that fails because there are too many", RENAMES - 1],
])("every write that failed is recorded, also by a task %s", async (_, maxErrors) => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  const task = new SyncTask({
    ...{ from: source.url, to: target.url, name: "t", maxErrors },
    filter: { accept: { prefixes: ["a:"] } },
  });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
  const renames = `for i = 1, ${RENAMES} do
    redis.call("SET", "a:" .. i, 1) redis.call("RENAME", "a:" .. i, "b:" .. i)
  end`;
  await source.command("EVAL", renames, "0");
  await eventually(() => expect(task.progress().errors).toBe(RENAMES), { withinMs: 20_000 });
  if (maxErrors < RENAMES) await expect(task.finished).rejects.toThrow("The first: RENAME a:1:");
  await task.close();
  expect(Number(await target.command("LLEN", "ropeway:sync:{t}:discarded"))).toBe(RENAMES);
});

test("a value that the target cannot hold counts as an error, and the other keys are copied", async () => {
  await using target = await startRedis();
  // With commands, in parts, and only after RESTORE was refused.
  const fields = Array.from({ length: 200 }, (_, i) => [0, str(`f${i}`), str("v".repeat(100))]);
  const expiring = [len(101), str("last"), str("v")];
  const large = [
    24,
    str("large"),
    le64(4_102_444_799_900),
    len(201),
    ...fields.flat(),
    ...expiring,
  ];
  const module = [7, str("module"), 0, 5, str("x"), 0];
  const plain = (key: string) => [0, str(key), str("1")];
  const values = [...plain("a"), ...large, ...plain("b"), ...module, ...plain("c")];
  const file = join(target.dir, "source.rdb");
  writeFileSync(file, rdb("REDIS0012", 254, 0, ...values));
  await using task = new SyncTask({
    ...{ from: `file:${file}`, to: target.url, mode: "stock", name: "t" },
    ...{ maxErrors: 2, bigBytes: 8_192, batchBytes: 8_192 },
  });
  await task.start();
  expect(await task.finished).toMatchObject({ phase: "FINISH", errors: 2 });
  expect(Number(await target.command("EXISTS", "a", "b", "c"))).toBe(3);
  const records = (await target.command("LRANGE", "ropeway:sync:{t}:discarded", "0", "-1")) as [];
  expect(records.map((each) => JSON.parse(String(each)).key).sort()).toEqual(["large", "module"]);
  expect(await target.command("KEYS", "ropeway:tmp:*")).toEqual([]);
});
