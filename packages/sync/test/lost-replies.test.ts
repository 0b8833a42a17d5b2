// Connections to the target that are lost after a batch was applied and before its replies arrive.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type RedisServer, startCluster, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { KeyExistsError, TargetRefusedError } from "../src/errors.ts";
import type { SyncOptions } from "../src/options.ts";
import type { SyncProgress } from "../src/progress.ts";
import { SyncTask } from "../src/task.ts";
import { LosingProxy } from "./losing-proxy.ts";
import { rdb, str } from "./rdb/build.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };

async function finished(options: SyncOptions): Promise<SyncProgress> {
  await using task = new SyncTask({ name: "t", once: true, ...options });
  task.on("error", () => {});
  await task.start();
  return await task.finished;
}

/** A cluster of one node whose clients are sent to the proxy. */
async function announce(node: RedisServer, proxy: LosingProxy): Promise<string> {
  await node.command("CONFIG", "SET", "cluster-announce-port", proxy.port);
  return `cluster://127.0.0.1:${proxy.port}`;
}

const sentBy = (name: string) => (sent: Buffer) => sent.includes(`\r\n${name}\r\n`);

test.each([["RPUSH"], ["RENAME"]])(
  "a cluster gets a large list once, also if the reply to %s is lost",
  async (name) => {
    await using source = await startRedis(SOURCE);
    await using cluster = await startCluster({ masters: 1 });
    const [node] = cluster.nodes as [RedisServer];
    const fill = 'for i = 1, 2000 do redis.call("RPUSH", "list", i .. string.rep("x", 100)) end';
    await source.command("EVAL", fill, "0");
    const isLost = (sent: Buffer) => sentBy(name)(sent) && !sentBy("UNLINK")(sent);
    await using proxy = await LosingProxy.start(node, isLost);
    const to = await announce(node, proxy);
    const end = await finished({ from: source.url, to, bigBytes: 20_000, batchBytes: 10_000 });
    expect(proxy.lost).toBe(1);
    expect(end).toMatchObject({ phase: "FINISH", errors: 0, reasons: { big: 1 } });
    const elements = await source.command("LRANGE", "list", "0", "-1");
    expect(await node.command("LRANGE", "list", "0", "-1")).toEqual(elements);
  },
  60_000,
);

test("a cluster gets every expiry that was held back, also if the reply to a batch of them is lost", async () => {
  await using source = await startRedis(SOURCE);
  await using cluster = await startCluster({ masters: 1 });
  const [node] = cluster.nodes as [RedisServer];
  const keys = Array.from({ length: 40 }, (_, i) => `k${i}`);
  for (const key of keys) await source.command("SET", key, "v", "EX", "600");
  await using proxy = await LosingProxy.start(node, sentBy("LPOP"));
  const to = await announce(node, proxy);
  await finished({ from: source.url, to, batchCommands: 5 });
  expect(proxy.lost).toBe(1);
  for (const key of keys) {
    const ttl = Number(await node.command("TTL", key));
    expect(ttl).toBeGreaterThan(0);
    expect(ttl).toBeLessThanOrEqual(600);
  }
}, 60_000);

/** A file with a value that no target can hold, between two strings. */
function withModule(dir: string): string {
  const plain = (key: string) => [0, str(key), str("new")];
  const module = [7, str("module"), 0, 5, str("x"), 0];
  const file = join(dir, "source.rdb");
  writeFileSync(file, rdb("REDIS0012", 254, 0, ...plain("a"), ...module, ...plain("b")));
  return `file:${file}`;
}

test("a key that the target refused is counted, also if the reply that says so is lost", async () => {
  await using target = await startRedis();
  await using proxy = await LosingProxy.start(target, sentBy("module"));
  const from = withModule(target.dir);
  const end = await finished({ from, to: proxy.url, mode: "stock", maxErrors: 1 });
  expect(proxy.lost).toBe(1);
  expect(end).toMatchObject({ phase: "FINISH", errors: 1 });
  const [record] = (await target.command(
    "LRANGE",
    "ropeway:sync:{t}:discarded",
    "0",
    "-1",
  )) as string[];
  expect(JSON.parse(String(record))).toMatchObject({ key: "module", db: 0 });
});

test("a key that exists is noticed, also if the reply that says so is lost", async () => {
  await using target = await startRedis();
  await using proxy = await LosingProxy.start(target, sentBy("module"));
  await target.command("SET", "a", "old");
  const ends = { from: withModule(target.dir), to: proxy.url, mode: "stock" } as const;
  const failing = finished({ ...ends, existing: "fail", maxErrors: 1 });
  await expect(failing).rejects.toBeInstanceOf(KeyExistsError);
  expect(proxy.lost).toBe(1);
  expect(await target.command("GET", "a")).toBe("old");
});

test("a target that closes the connection whenever it gets a batch ends the task after stallMs", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis({ config: ["proto-max-bulk-len 1mb"] });
  await source.command("SET", "large", "x".repeat(2 * 1024 * 1024));
  const refused = finished({ from: source.url, to: target.url, mode: "stock", stallMs: 100 });
  await expect(refused).rejects.toThrow(/closes the connection.*proto-max-bulk-len/);
  await expect(refused).rejects.toBeInstanceOf(TargetRefusedError);
  const connections = /total_connections_received:(\d+)/;
  const [, count] = connections.exec(String(await target.command("INFO", "stats"))) ?? [];
  expect(Number(count)).toBeLessThan(40);
}, 60_000);
