import { startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { check } from "../src/preflight/check.ts";
import { SyncTask } from "../src/task.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };
const STATE = "ropeway:store:@state";

test("a copy onto another Ropeway installation is refused before it writes, and check says so", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("HSET", STATE, "id", "one");
  await target.command("HSET", STATE, "id", "two");
  const ends = { from: source.url, to: target.url };
  await using task = new SyncTask({ ...ends, once: true });
  await expect(task.start()).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining("tasks of another Ropeway installation"),
  });
  expect(await target.command("KEYS", "*")).toEqual([STATE]);
  expect(String(await target.command("HGET", STATE, "id"))).toBe("two");
  const { ok, findings } = await check(ends);
  expect(ok).toBe(false);
  expect(findings).toContainEqual(
    expect.objectContaining({ what: "installations", level: "problem" }),
  );
});

test("a copy without the keys of the installation goes on, and so does one that began before", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("HSET", STATE, "id", "one");
  await source.command("SET", "n", "1");
  await target.command("HSET", STATE, "id", "two");
  const ends = { from: source.url, to: target.url, once: true };
  await using filtered = new SyncTask({
    ...ends,
    filter: { refuse: { prefixes: ["ropeway:store:"] } },
  });
  await filtered.start();
  await filtered.finished;
  expect(String(await target.command("GET", "n"))).toBe("1");
  expect(String(await target.command("HGET", STATE, "id"))).toBe("two");

  await target.command("DEL", STATE);
  for (const name of ["whole", "whole"]) {
    await using whole = new SyncTask({ ...ends, name });
    await whole.start();
    await whole.finished;
    expect(String(await target.command("HGET", STATE, "id"))).toBe("one");
  }
  expect(await check(ends)).toMatchObject({ ok: true });
});
