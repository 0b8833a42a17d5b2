import { type RedisCluster, startCluster } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

let plain: RedisCluster;
let replicated: RedisCluster;

beforeAll(async () => {
  [plain, replicated] = await Promise.all([
    startCluster(),
    startCluster({ replicas: 1, nodeTimeoutMs: 1000 }),
  ]);
});

afterAll(() => Promise.all([plain.close(), replicated.close()]));

describe("three masters", () => {
  test("share all slots and agree that the cluster is well", async () => {
    const ports = plain.nodes.map(({ port }) => `127.0.0.1:${port}`);
    expect(plain.url).toBe(`redis-cluster://${ports.join(",")}`);
    const owners = await Promise.all([0, 8000, 16_383].map((slot) => plain.nodeOf(slot)));
    expect(owners).toEqual(plain.nodes);
    for (const node of plain.nodes) {
      expect(await node.command("CLUSTER", "INFO")).toContain("cluster_slots_ok:16384");
    }
  });

  test("answer for their own keys and point to the owner of others", async () => {
    const owner = await plain.nodeOf("{shop}:1");
    const other = plain.nodes.find((node) => node !== owner);
    await expect(owner.command("SET", "{shop}:1", "x")).resolves.toBe("OK");
    await expect(other?.command("GET", "{shop}:1")).rejects.toMatchObject({ code: "MOVED" });
  });

  test("hand a slot with its keys to another, with ASK on the way", async () => {
    const from = await plain.nodeOf("{move}:1");
    const to = plain.nodes.find((node) => node !== from) ?? from;
    await from.command("MSET", "{move}:1", "a", "{move}:2", "b");
    const seen: string[] = [];
    await plain.moveSlot(await plain.slotOf("{move}:1"), to, {
      beforeKeys: async () => {
        seen.push(String(await from.command("GET", "{move}:1")));
      },
      afterKeys: async () => {
        await from.command("GET", "{move}:1").catch(({ code }) => seen.push(code));
      },
    });
    expect(seen).toEqual(["a", "ASK"]);
    await expect(plain.nodeOf("{move}:1")).resolves.toBe(to);
    await expect(to.command("MGET", "{move}:1", "{move}:2")).resolves.toEqual(["a", "b"]);
    await expect(from.command("GET", "{move}:1")).rejects.toMatchObject({ code: "MOVED" });
  });
});

describe("masters with replicas", () => {
  test("swap on command and keep the data", async () => {
    const master = await replicated.nodeOf("k");
    const replica = await replicated.replicaOf(master);
    await master.command("SET", "k", "v");
    await expect(replicated.failover(master, "command")).resolves.toBe(replica);
    await expect(replica.command("GET", "k")).resolves.toBe("v");
  });

  test("take over from a master that was killed, which comes back as a replica", async () => {
    const master = await replicated.nodeOf(0);
    const successor = await replicated.failover(master, "kill");
    await expect(replicated.nodeOf(0)).resolves.toBe(successor);
    await master.start();
    await replicated.settled();
    await expect(replicated.replicaOf(successor)).resolves.toBe(master);
  });
});
