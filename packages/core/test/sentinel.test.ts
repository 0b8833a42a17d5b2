import { eventually, type SentinelTrio, startSentinelTrio } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, defineScript } from "../src/index.ts";

const take = defineScript(new URL("./fixture/take.lua", import.meta.url));

let trio: SentinelTrio;

beforeAll(async () => {
  trio = await startSentinelTrio({ downAfterMs: 500 });
});

afterAll(() => trio.close());

test("an unknown master is told with the sentinels' address", async () => {
  const wrong = trio.url.replace(trio.name, "nobody");
  await expect(connect(wrong, { connectWaitMs: 2_000 })).rejects.toMatchObject({
    code: "CONNECT_FAILED",
    message: expect.stringContaining("nobody"),
  });
});

test("a failover by command moves every connection, although the old master still answers", async () => {
  await using redis = await connect(trio.url, { offlineWaitMs: 20_000 });
  const waiting = await redis.blocking("test", "list");
  const before = await trio.master();
  await redis.run(take, ["stock"], [1]);
  // The wait is either carried over (the server says UNBLOCKED) or ends with a typed error.
  const outcome = waiting
    .send(["BLPOP", "list", "30"], { blockMs: 30_000 })
    .catch((error) => error.code);
  const after = await trio.failover("command");
  expect(after.port).not.toBe(before.port);
  await eventually(async () => {
    const names = (await after.clients()).map((client) => client.name);
    expect(names).toContain("ropeway");
  });
  await redis.run(take, ["stock"], [1]);
  expect(await after.command("GET", "stock")).toBe("2");
  await redis.send(["RPUSH", "list", "x"]);
  expect([["list", "x"], "CONNECTION_LOST"]).toContainEqual(await outcome);
});

test("a master killed under load is replaced and no command hangs", async () => {
  await trio.settled();
  await using redis = await connect(trio.url, { offlineWaitMs: 20_000 });
  const codes = new Set<string>();
  let running = true;
  let done = 0;
  const callers = Array.from({ length: 20 }, async () => {
    while (running) {
      await redis.send(["INCR", "load"]).then(
        () => {
          done += 1;
        },
        (error) => codes.add(error.code),
      );
    }
  });
  await eventually(() => expect(done).toBeGreaterThan(100));
  await trio.failover("kill");
  const before = done;
  await eventually(() => expect(done).toBeGreaterThan(before + 100), { withinMs: 15_000 });
  running = false;
  await Promise.all(callers);
  expect([...codes].filter((code) => code !== "CONNECTION_LOST")).toEqual([]);
});
