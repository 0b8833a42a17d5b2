import { setImmediate } from "node:timers/promises";
import { connect, type Redis } from "@ropeway/core";
import { eventually, startCluster, startProxy, startRedis } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { getMany } from "../src/record.ts";
import { RedisStoreKeys } from "../src/store/redis/keys.ts";
import { openRedisStore } from "../src/store/redis/redis-store.ts";
import { storeRevoke } from "../src/store/redis/scripts.ts";
import type { Store } from "../src/store/store.ts";
import { collect, storeConformance } from "./store.conformance.ts";

storeConformance("redis", async () => {
  const server = await startRedis({ appendonly: true });
  const connections: Redis[] = [];
  return {
    async open() {
      const redis = await connect(server.url);
      connections.push(redis);
      return openRedisStore(redis);
    },
    async restart() {
      await server.kill9();
      await server.start();
    },
    compact: (store, revision) =>
      (store as Store & { compact(revision: number): Promise<void> }).compact(revision),
    async close() {
      await Promise.all(connections.map((redis) => redis.close()));
      await server.close();
    },
  };
});

describe("what only the Redis store has", () => {
  it("keeps each path as one string with the same text", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    await store.put("/tasks/name/a b", '{"taskId":"t"}');
    expect(await server.command("GET", "ropeway:store:/tasks/name/a b")).toBe('{"taskId":"t"}');
  });

  it("works for a user without channels, and only on its keys", async () => {
    await using server = await startRedis();
    const rights = ["+@all", "-@dangerous", "-@admin", "+info", "+client"];
    const user = ["SETUSER", "node", "on", ">pw", "resetchannels", "~ropeway:store:*", ...rights];
    await server.command("ACL", ...user);
    await using redis = await connect(server.url.replace("redis://", "redis://node:pw@"));
    const store = openRedisStore(redis);
    const { id } = await store.grant(1_000);
    const from = await store.put("/a/b", "1", id);
    const watch = collect(store, "/a/", from);
    await eventually(() => expect(watch.seen()).toEqual(["put /a/b 1", "delete /a/b "]), {
      withinMs: 8_000,
    });
    await watch.stop();
    await store.close();
  });

  it("closes although the server hangs while it watches", async () => {
    await using server = await startRedis();
    const patient = { closeWithinMs: 600_000, deadAfterMs: 600_000 };
    await using redis = await connect(server.url, patient);
    const store = openRedisStore(redis);
    const watch = collect(store, "/a/", await store.put("/a/b", "1"));
    await eventually(() => expect(watch.seen()).toEqual(["put /a/b 1"]));
    await eventually(async () =>
      expect(await server.command("CLIENT", "LIST")).toContain("cmd=xread"),
    );
    process.kill(server.pid, "SIGSTOP");
    await store.close();
    process.kill(server.pid, "SIGCONT");
    await watch.stop();
  });

  it("ends a lease without the keys that another took over while it was being ended", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    const [old, next] = [await store.grant(60_000), await store.grant(60_000)];
    const paths = ["/a/kept", "/a/plain", "/a/gone"];
    for (const path of paths) await store.put(path, "old", old.id);
    // Whoever ends the old lease has read these paths, and then two of them changed hands.
    await store.put("/a/kept", "new", next.id);
    await store.put("/a/plain", "free");
    const at = new RedisStoreKeys("ropeway:store", redis.topology);
    const fixed = [at.state, at.index, at.meta, at.log, at.leases, at.held];
    const values = paths.map((path) => at.value(path));
    const args = [1_000, old.id, "now", ...paths];
    expect(await redis.run(storeRevoke, [...fixed, ...values], args)).toBe(1);
    const { entries } = await store.range("/a/");
    expect(entries.map(({ key, value, lease }) => [key, value, lease])).toEqual([
      ["/a/kept", "new", next.id],
      ["/a/plain", "free", undefined],
    ]);
    await store.revoke(next.id);
    expect((await store.range("/a/")).entries.map(({ key }) => key)).toEqual(["/a/plain"]);
    await store.close();
  });

  it("reads large values in parts, for watches and ranges, and every one once", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    const value = (n: number) => `${n}`.padEnd(300_000, "x");
    const from = await store.put("/big/00", value(0));
    for (let n = 1; n < 12; n++) {
      const at = (part: string) => `/big/${String(n).padStart(2, "0")}${part}`;
      // A revision of its own size: it comes as a whole.
      await store.txn({
        do: ["", ".a", ".b"].map((part) => ({ op: "put", key: at(part), value: value(n) })),
      });
    }
    const { entries, more } = await store.range("/big/");
    expect(more).toBe(false);
    expect(entries).toHaveLength(34);
    for (const { key, value: text } of entries) expect(text).toBe(value(Number(key.slice(5, 7))));
    const stop = new AbortController();
    const batches: number[][] = [];
    for await (const events of store.watch({ prefix: "/big/", from, signal: stop.signal })) {
      batches.push(events.map(({ entry }) => entry.modRevision));
      if (batches.flat().length === 34) stop.abort();
    }
    expect(batches.length).toBeGreaterThan(5);
    expect(batches.flat()).toEqual([...batches.flat()].sort((a, b) => a - b));
    for (const [n, batch] of batches.entries()) {
      expect(batches[n + 1]?.[0]).not.toBe(batch.at(-1)); // no revision is split
    }
    await store.close();
  });

  it("says so when the data is lost, and never repeats a revision", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    const before = await store.put("/a/b", "1");
    const watch = collect(store, "/a/", before);
    await eventually(() => expect(watch.events).toHaveLength(1));
    await server.command("FLUSHALL");
    const after = await store.put("/a/b", "2");
    expect(after).toBeGreaterThan(before);
    await expect(watch.done).rejects.toMatchObject({ code: "COMPACTED" });
    await store.close();
  });

  it("changes nothing when Redis has no memory left or a key is somebody else's", async () => {
    await using server = await startRedis({ config: ["maxmemory-policy noeviction"] });
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    const revision = await store.put("/a/b", "1");
    await server.command("RPUSH", "ropeway:store:/a/list", "x");
    const mixed = store.txn({
      do: [
        { op: "put", key: "/a/b", value: "2" },
        { op: "put", key: "/a/list", value: "y" },
      ],
    });
    await expect(mixed).rejects.toMatchObject({ code: "WRONG_KEY_TYPE" });
    await server.command("CONFIG", "SET", "maxmemory", "1");
    await expect(store.put("/a/b", "3")).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
    await server.command("CONFIG", "SET", "maxmemory", "0");
    expect(await store.get("/a/b")).toMatchObject({ value: "1", modRevision: revision });
    expect((await store.status()).revision).toBe(revision);
    await store.close();
  });

  it("says so when the server comes back with an older copy, and stays above what it gave", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    const first = await store.put("/a/b", "1");
    await server.command("SAVE");
    const lost = await store.put("/a/b", "2");
    const watch = collect(store, "/a/", first);
    await eventually(() => expect(watch.events).toHaveLength(2));
    await server.kill9();
    await server.start();
    const after = await eventually(() => store.put("/a/c", "3"), { withinMs: 10_000 });
    expect(after).toBeGreaterThan(lost);
    expect(await store.get("/a/b")).toMatchObject({ value: "1" });
    await expect(watch.done).rejects.toMatchObject({ code: "COMPACTED" });
    await store.close();
  }, 30_000);

  it("renews and ends leases and deletes keys when Redis has no memory left", async () => {
    await using server = await startRedis({ config: ["maxmemory-policy noeviction"] });
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    const kept = await store.grant(60_000);
    const short = await store.grant(1_000);
    await store.put("/a/kept", "1", kept.id);
    await store.put("/a/short", "1", short.id);
    await store.put("/a/plain", "1");
    await server.command("CONFIG", "SET", "maxmemory", "1");
    expect(await store.keepAlive(kept.id)).toBe(60_000);
    expect(await store.delete("/a/plain")).toBe(true);
    await eventually(async () => expect(await store.get("/a/short")).toBeUndefined());
    await store.revoke(kept.id);
    expect((await store.range("/a/")).entries).toEqual([]);
    await expect(store.put("/a/new", "1")).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
    await store.close();
  });

  it.each(["state", "index", "meta", "log", "leases", "held"])(
    "changes nothing when @%s is somebody else's",
    async (name) => {
      await using server = await startRedis();
      await using redis = await connect(server.url);
      const store = openRedisStore(redis);
      await server.command("SET", `ropeway:store:@${name}`, "foreign");
      await expect(store.put("/a/b", "1")).rejects.toMatchObject({ code: "WRONG_KEY_TYPE" });
      expect(await server.command("KEYS", "*")).toEqual([`ropeway:store:@${name}`]);
      await store.close();
    },
  );

  it("keeps nothing about keys that a living lease no longer holds", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    const { id } = await store.grant(60_000);
    for (let n = 0; n < 50; n++) {
      await store.put(`/a/${n}`, "1", id);
      if (n % 2 === 0) await store.delete(`/a/${n}`);
      else await store.put(`/a/${n}`, "2");
    }
    expect(await server.command("ZCARD", "ropeway:store:@held")).toBe(0);
    await store.revoke(id);
    expect((await store.range("/a/")).entries).toHaveLength(25);
    await store.close();
  });

  it("ends leases that the server no longer knows, with their keys", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    const { id } = await store.grant(60_000);
    for (let n = 0; n < 5; n++) await store.put(`/a/${n}`, "1", id);
    await server.command("DEL", "ropeway:store:@leases"); // evicted, or deleted by hand
    expect(await store.keepAlive(id)).toBe(0);
    await eventually(async () => expect((await store.range("/a/")).entries).toEqual([]));
    expect(await server.command("ZCARD", "ropeway:store:@held")).toBe(0);
    const revoked = await store.grant(60_000);
    await store.put("/a/b", "1", revoked.id);
    await server.command("DEL", "ropeway:store:@leases");
    await store.revoke(revoked.id);
    expect(await store.get("/a/b")).toBeUndefined();
    await store.close();
  });

  it("ends a lease in time although the server's clock was set back", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    const short = await store.grant(1_000);
    const long = await store.grant(60_000);
    await store.put("/a/short", "1", short.id);
    await store.put("/a/long", "1", long.id);
    // What a clock that goes back by an hour leaves: ends that are an hour too late.
    for (const { id } of [short, long]) {
      await server.command("ZINCRBY", "ropeway:store:@leases", "3600000", id);
    }
    await eventually(async () => expect(await store.get("/a/short")).toBeUndefined(), {
      withinMs: 10_000,
    });
    expect(await store.get("/a/long")).toBeDefined();
    const [seconds = "0"] = (await server.command("TIME")) as string[];
    const ends = Number(await server.command("ZSCORE", "ropeway:store:@leases", long.id));
    expect(ends - Number(seconds) * 1_000).toBeLessThan(70_000);
    await store.close();
  });

  it("neither renews nor uses a lease that has ended and is not removed yet", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis); // ends no leases: it has none and watches nothing
    await server.command("ZADD", "ropeway:store:@leases", "1", "60000-ended");
    expect(await store.keepAlive("60000-ended")).toBe(0);
    await expect(store.put("/a/b", "1", "60000-ended")).rejects.toMatchObject({
      code: "STORE_REFUSED",
    });
    expect(await store.get("/a/b")).toBeUndefined();
    await store.close();
  });

  it("shortens its log for long values, and loses no event of a watch that keeps up", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis, { history: 1_000 });
    const length = async () => Number(await server.command("XLEN", "ropeway:store:@log"));
    let from = 0;
    for (let n = 0; n < 400; n++) from = await store.put("/short/0", String(n));
    expect(await length()).toBe(400);
    const watch = collect(store, "/long/", from);
    const long = "x".repeat(100_000);
    const names = Array.from({ length: 60 }, (_, n) => `/long/${n}`);
    for (const name of names) await store.put(name, long);
    await eventually(() => expect(watch.seen()).toHaveLength(names.length));
    expect(watch.seen().map((line) => line.split(" ", 2)[1])).toEqual(names);
    const kept = await length();
    expect(kept).toBeGreaterThanOrEqual(250);
    expect(kept).toBeLessThan(400);
    await watch.stop();
    await store.close();
  });

  it("says that history is gone when the log has lost the beginning of a revision", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    await store.put("/a/0", "1");
    const { revision } = await store.txn({
      do: ["/a/1", "/a/2", "/a/3"].map((key) => ({ op: "put", key, value: "1" })),
    });
    await server.command("XTRIM", "ropeway:store:@log", "MINID", `${revision}-1`);
    const watch = collect(store, "/a/", revision);
    await expect(watch.done).rejects.toMatchObject({ code: "COMPACTED" });
    expect(watch.events).toEqual([]); // not the half that is left
    await store.close();
  });

  it("says that a write may have been made when the connection was lost meanwhile", async () => {
    await using server = await startRedis();
    await using proxy = await startProxy(server);
    await using redis = await connect(proxy.url);
    const store = openRedisStore(redis);
    await store.put("/a/b", "1");
    await server.command("CLIENT", "PAUSE", "60000", "WRITE"); // it arrives, and no response comes
    const writing = store.put("/a/b", "2");
    const refused = expect(writing).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      maybeApplied: true,
    });
    const waits = async () =>
      expect(await server.command("INFO", "clients")).toMatch(/blocked_clients:1/);
    await eventually(waits);
    proxy.cut();
    await refused;
    await server.command("CLIENT", "UNPAUSE");
    await store.close();
  });

  it("repeats a transaction that only reads when the connection was lost meanwhile", async () => {
    await using server = await startRedis();
    await using proxy = await startProxy(server);
    await using redis = await connect(proxy.url);
    const store = openRedisStore(redis);
    await store.put("/a/b", "1");
    proxy.halfOpen();
    const reading = getMany(store, ["/a/b", "/a/c"]);
    reading.catch(() => {});
    await setImmediate(); // it has left, and its response does not come
    proxy.cut();
    await proxy.heal();
    expect((await reading).map((entry) => entry?.value)).toEqual(["1", undefined]);
    await store.close();
  });

  it("is unavailable, without a doubt about the change, while its Redis has too few replicas", async () => {
    await using server = await startRedis();
    await using redis = await connect(server.url);
    const store = openRedisStore(redis);
    await store.put("/a/b", "1");
    await server.command("CONFIG", "SET", "min-replicas-to-write", "1");
    const writes = [
      store.put("/a/b", "2"),
      store.grant(1_000),
      new Cluster(store).tasks.create({ name: "alone", type: "scripted", config: {} }),
    ];
    for (const { reason } of (await Promise.allSettled(writes)) as PromiseRejectedResult[]) {
      expect(reason).toMatchObject({ code: "STORE_UNAVAILABLE", maybeApplied: false });
      expect(reason.message).toContain("NOREPLICAS");
    }
    expect((await store.get("/a/b"))?.value).toBe("1");
    await server.command("CONFIG", "SET", "min-replicas-to-write", "0");
    await store.put("/a/b", "3");
    await store.close();
  });

  it("keeps all keys on one slot of a cluster", async () => {
    await using cluster = await startCluster();
    await using redis = await connect(cluster.url);
    const store = openRedisStore(redis);
    const { id } = await store.grant(10_000);
    const { revision } = await store.txn({
      do: [
        { op: "put", key: "/x/1", value: "a", lease: id },
        { op: "put", key: "/y/2", value: "b" },
      ],
    });
    expect((await store.range("/x/")).entries).toHaveLength(1);
    const watch = collect(store, "/y/", revision);
    await eventually(() => expect(watch.seen()).toEqual(["put /y/2 b"]));
    await store.revoke(id);
    expect(await store.get("/x/1")).toBeUndefined();
    await watch.stop();
    await store.close();
  }, 60_000);
});
