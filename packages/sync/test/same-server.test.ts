import { startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { check } from "../src/preflight/check.ts";
import { SyncTask } from "../src/task.ts";

test("a task from a server to itself is refused before it writes, and check says so", async () => {
  await using server = await startRedis();
  await server.command("SET", "n", "1");
  await using task = new SyncTask({ from: server.url, to: server.url });
  await expect(task.start()).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining("must be another server than the source"),
  });
  expect(await server.command("KEYS", "*")).toEqual(["n"]);
  const { ok, findings } = await check({ from: server.url, to: server.url });
  expect(ok).toBe(false);
  expect(findings).toContainEqual(
    expect.objectContaining({ what: "same server", level: "problem" }),
  );
});

test("a snapshot goes to another database of its server", async () => {
  await using server = await startRedis();
  await server.command("SET", "n", "1");
  const { url } = server;
  await using task = new SyncTask({ from: url, to: url, mode: "stock", dbMap: { "0": 3 } });
  await task.start();
  await task.finished;
  await server.command("SELECT", "3");
  expect(String(await server.command("GET", "n"))).toBe("1");
});
