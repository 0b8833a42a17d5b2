import { startSentinelTrio } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("three Sentinels agree on the master and on the next one after it dies", async () => {
  await using trio = await startSentinelTrio();
  const [first] = trio.servers;
  const ports = trio.sentinels.map(({ port }) => `127.0.0.1:${port}`);
  expect(trio.url).toBe(`redis-sentinel://${ports.join(",")}/mymaster`);
  await expect(trio.master()).resolves.toBe(first);

  const second = await trio.failover("kill");
  expect(second).toBe(trio.servers[1]);
  await expect(second.command("SET", "k", "v")).resolves.toBe("OK");

  await first.start();
  await trio.settled();
  await expect(first.command("ROLE")).resolves.toContain("slave");

  await expect(trio.failover("command")).resolves.toBe(first);
  await expect(first.command("GET", "k")).resolves.toBe("v");
});
