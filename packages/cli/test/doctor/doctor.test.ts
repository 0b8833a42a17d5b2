import { freePort, startCluster, startRedis, startReplicaPair } from "@ropeway/testkit";
import { expect, test } from "vitest";
import type { Finding } from "../../src/doctor/finding.ts";
import { checkNode } from "../../src/doctor/machine-checks.ts";
import { checkServer } from "../../src/doctor/server-checks.ts";
import type { ServerFacts } from "../../src/doctor/server-facts.ts";
import { fieldsOf } from "../../src/store.ts";
import { speak } from "../spoken.ts";

/** What doctor finds with this Redis, by check. */
async function examine(redisUrl: string): Promise<{ code: number; found: Map<string, Finding> }> {
  const [port, queue] = [await freePort(), await freePort()];
  const env = { REDIS_URL: redisUrl, ROPEWAY_HOME: "/tmp/none" };
  const args = ["doctor", "--json", "--port", String(port), "--queue-port", String(queue)];
  const { code, stdout } = await speak(args, { env });
  const { checks, ok } = JSON.parse(stdout) as { ok: boolean; checks: Finding[] };
  expect(code).toBe(ok ? 0 : 1);
  return { code, found: new Map(checks.map((finding) => [finding.check, finding])) };
}

test("a Redis as it should be passes every check", async () => {
  await using redis = await startRedis({ appendonly: true });
  const { code, found } = await examine(redis.url);
  expect(code).toBe(0);
  expect([...found.values()].filter(({ status }) => status !== "ok")).toEqual([]);
  expect([...found.keys()]).toEqual(
    expect.arrayContaining(["node", "home", "portal.port", "merge.port", "redis", "role"]),
  );
  expect(found.get("persistence")?.found).toBe("append-only file, appendfsync always");
});

test("what can lose data is a failure that says what to change", async () => {
  await using redis = await startRedis({
    config: ["maxmemory 100mb", "maxmemory-policy allkeys-lru"],
  });
  const { code, found } = await examine(redis.url);
  expect(code).toBe(1);
  expect(found.get("persistence")).toMatchObject({
    status: "fail",
    advice: "CONFIG SET appendonly yes, then CONFIG REWRITE",
  });
  expect(found.get("eviction")).toMatchObject({ status: "fail", found: "allkeys-lru" });
});

test("snapshots alone are a warning", async () => {
  await using redis = await startRedis({ config: ["save 60 1"] });
  expect((await examine(redis.url)).found.get("persistence")).toMatchObject({ status: "warn" });
});

test("a Redis that is down is a failure with the setting that names it", async () => {
  const { code, found } = await examine(`redis://127.0.0.1:${await freePort()}`);
  expect(code).toBe(1);
  expect(found.get("redis")).toMatchObject({
    status: "fail",
    found: expect.stringContaining("ECONNREFUSED"),
    advice: "check that server, or change REDIS_URL",
  });
});

test("a replica is told from its master", async () => {
  await using pair = await startReplicaPair();
  const { found } = await examine(pair.replica.url);
  expect(found.get("role")).toMatchObject({
    status: "fail",
    found: `a replica of 127.0.0.1:${pair.master.port}`,
  });
});

test("each master of a cluster is checked", async () => {
  await using cluster = await startCluster();
  const { found } = await examine(cluster.url);
  expect(found.get("cluster")).toMatchObject({
    status: "ok",
    found: "3 masters, 16384 of 16384 slots",
  });
  const persistence = [...found.keys()].filter((check) => check.startsWith("persistence "));
  expect(persistence).toHaveLength(3);
});

test("a full memory, a wrong clock and a slow way are warnings; INFO refused is one too", () => {
  const facts: ServerFacts = {
    title: "Redis 7.0.15",
    topology: "standalone",
    info: fieldsOf(
      "# Memory\r\nused_memory:95\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\n",
    ),
    config: new Map(),
    clockAheadMs: -5_000,
    clockErrorMs: 1,
    roundTripMs: 50,
  };
  const statuses = (given: ServerFacts) =>
    Object.fromEntries(checkServer(given).map(({ check, status }) => [check, status]));
  expect(statuses(facts)).toMatchObject({ memory: "warn", clock: "warn", latency: "warn" });
  expect(statuses({ ...facts, info: new Map() })).toMatchObject({ info: "warn" });
});

test("an old Node is a failure", () => {
  expect(checkNode("18.20.0")).toMatchObject({ status: "fail" });
  expect(checkNode("20.18.9")).toMatchObject({ status: "fail" });
  expect(checkNode("20.19.0")).toMatchObject({ status: "ok" });
  expect(checkNode("24.0.0")).toMatchObject({ status: "ok" });
});
