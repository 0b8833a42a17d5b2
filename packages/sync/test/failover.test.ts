import { eventually, startRedis, startSentinelTrio } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";

const CONFIG = ["repl-diskless-sync-delay 0"];

test("a failover of the source behind Sentinel is followed, and every write is applied once", async () => {
  await using trio = await startSentinelTrio({ config: CONFIG });
  await using target = await startRedis();
  await (await trio.master()).command("SET", "n", "0");
  await using task = new SyncTask({ from: trio.url, to: target.url });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"), { withinMs: 20_000 });
  const old = await trio.master();
  await old.command("INCR", "n");
  // Redis replicates later than it replies: what no replica has is lost with the master.
  await eventually(async () => {
    for (const server of [...trio.servers, target])
      expect(await server.command("GET", "n")).toBe("1");
  });
  const fulls = task.progress().fullResyncs;
  // Sentinel lists the syncer as a replica that it cannot reach, so the group never counts as settled.
  await trio.failover("command").catch(() => {});
  await eventually(
    async () => {
      const master = await trio.master();
      expect(master.port).not.toBe(old.port);
      await master.command("INCR", "n");
    },
    { withinMs: 60_000 },
  );
  await eventually(async () => expect(String(await target.command("GET", "n"))).toBe("2"), {
    withinMs: 60_000,
  });
  // What the deposed master still sent, pings and hellos of Sentinels, does not count as another history.
  expect(task.progress().fullResyncs).toBe(fulls);
}, 120_000);

test("a failover of the target behind Sentinel is survived", async () => {
  await using source = await startRedis({ config: CONFIG });
  await using trio = await startSentinelTrio({ config: CONFIG });
  await using task = new SyncTask({ from: source.url, to: trio.url });
  task.on("error", () => {});
  await task.start();
  await eventually(() => expect(task.status).toBe("COMMANDRUNNING"), { withinMs: 20_000 });
  for (let i = 0; i < 10; i++) await source.command("INCR", "n");
  await eventually(async () =>
    expect(String(await (await trio.master()).command("GET", "n"))).toBe("10"),
  );
  await trio.failover("command");
  await trio.settled();
  for (let i = 0; i < 10; i++) await source.command("INCR", "n");
  await eventually(
    async () => expect(String(await (await trio.master()).command("GET", "n"))).toBe("20"),
    { withinMs: 60_000 },
  );
}, 120_000);
