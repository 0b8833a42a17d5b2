import { type RedisCluster, startCluster } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

describe("three masters", () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await startCluster();
  });

  afterAll(() => cluster.close());

  test("share all slots and agree that the cluster is well", async () => {
    const ports = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`);
    expect(cluster.url).toBe(`redis-cluster://${ports.join(",")}`);
    const owners = await Promise.all([0, 8000, 16_383].map((slot) => cluster.nodeOf(slot)));
    expect(owners).toEqual(cluster.nodes);
    for (const node of cluster.nodes) {
      expect(await node.command("CLUSTER", "INFO")).toContain("cluster_slots_ok:16384");
    }
  });

  test("answer for their own keys and point to the owner of others", async () => {
    const owner = await cluster.nodeOf("{shop}:1");
    const other = cluster.nodes.find((node) => node !== owner);
    await expect(owner.command("SET", "{shop}:1", "x")).resolves.toBe("OK");
    await expect(other?.command("GET", "{shop}:1")).rejects.toMatchObject({ code: "MOVED" });
  });

  test("hand a slot with its keys to another, with ASK on the way", async () => {
    const from = await cluster.nodeOf("{move}:1");
    const to = cluster.nodes.find((node) => node !== from) ?? from;
    await from.command("MSET", "{move}:1", "a", "{move}:2", "b");
    const seen: string[] = [];
    await cluster.moveSlot(await cluster.slotOf("{move}:1"), to, {
      beforeKeys: async () => {
        seen.push(String(await from.command("GET", "{move}:1")));
      },
      afterKeys: async () => {
        await from.command("GET", "{move}:1").catch(({ code }) => seen.push(code));
      },
    });
    expect(seen).toEqual(["a", "ASK"]);
    await expect(cluster.nodeOf("{move}:1")).resolves.toBe(to);
    await expect(to.command("MGET", "{move}:1", "{move}:2")).resolves.toEqual(["a", "b"]);
    await expect(from.command("GET", "{move}:1")).rejects.toMatchObject({ code: "MOVED" });
  });
});

describe("masters with replicas", () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await startCluster({ replicas: 1, nodeTimeoutMs: 1000 });
  });

  afterAll(() => cluster.close());

  test("swap on command and keep the data", async () => {
    const master = await cluster.nodeOf("k");
    const replica = await cluster.replicaOf(master);
    await master.command("SET", "k", "v");
    await expect(cluster.failover(master, "command")).resolves.toBe(replica);
    await expect(replica.command("GET", "k")).resolves.toBe("v");
  });

  test("take over from a master that was killed, which comes back as a replica", async () => {
    const master = await cluster.nodeOf(0);
    const successor = await cluster.failover(master, "kill");
    await expect(cluster.nodeOf(0)).resolves.toBe(successor);
    await master.start();
    await cluster.settled();
    await expect(cluster.replicaOf(successor)).resolves.toBe(master);
  });
});
