import { connect } from "@ropeway/core";
import {
  eventually,
  otherServer,
  startCluster,
  startRedis,
  startSentinelTrio,
} from "@ropeway/testkit";
import { expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { Lock } from "../src/lock/index.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { Semaphore } from "../src/semaphore/index.ts";
import { live } from "./life.ts";

test("everything works on Redis Cluster, and locks go on after a failover and a moved slot", async () => {
  await using cluster = await startCluster({ replicas: 1 });
  await using redis = await connect(cluster.url);
  await live(redis, "{shop}");
  await live(redis, "app:{shop}");
  for (const name of ["plain", "{tag}", "a{b"]) await new Lock(redis, name).run(() => {}); // need no hash tag
  const [one] = [new Lock(redis, "waiting"), new Lock(redis, "waiting")];
  const held = await one.acquire();
  const waiting = new Lock(redis, "waiting").acquire();
  await new Mailbox(redis, "anna").send(1);
  expect(() => new Lock(redis, "a}b")).toThrow("hash tag");
  expect(() => new Semaphore(redis, "plain")).toThrow("hash tag");
  expect(() => new Chat(redis, { prefix: "plain" })).toThrow("hash tag");
  await held.release();
  await (await waiting).release();

  const lock = new Lock(redis, "moved", { prefix: "{move}" });
  const first = await lock.acquire({ ttlMs: 60_000 });
  await cluster.failover(await cluster.nodeOf("{move}"), "command");
  await eventually(() => first.extend(), { withinMs: 15_000 });
  const slot = await cluster.slotOf("{move}");
  await cluster.moveSlot(slot, await cluster.nodeOf((slot + 8_000) % 16_384));
  const next = new Lock(redis, "moved", { prefix: "{move}" }).acquire({ waitMs: 15_000 });
  expect(await first.release()).toBe(true);
  expect((await next).fence).toBeGreaterThan(first.fence);
  await (await next).release();
}, 120_000);

test("a Sentinel failover interrupts waits and does not end them; fences rise over it", async () => {
  await using trio = await startSentinelTrio();
  await using redis = await connect(trio.url);
  const lock = new Lock(redis, "l");
  const first = await lock.acquire({ ttlMs: 2_000 });
  const waiting = lock.acquire({ waitMs: 40_000 });
  await trio.failover("kill");
  const second = await eventually(() => waiting, { withinMs: 40_000 });
  expect(second.fence).toBeGreaterThan(first.fence);
  await second.release();
  await live(redis, "p");
}, 120_000);

for (const version of ["redis-7.0", "redis-8.0", "valkey-8.1"] as const) {
  const { reason } = otherServer(version);
  test.skipIf(reason !== undefined)(
    `everything works on ${version} ${reason ?? ""}`,
    async () => {
      await using server = await startRedis({ version });
      await using redis = await connect(server.url);
      await live(redis, "");
    },
    60_000,
  );
}

test("everything works for a user with keys of one prefix, no channels and no dangerous commands", async () => {
  await using server = await startRedis();
  const rules = [
    "on",
    ">secret",
    "resetkeys",
    "resetchannels",
    "~app:*",
    "+@all",
    "-@dangerous",
    "+info",
  ];
  await server.command("ACL", "SETUSER", "app", ...rules);
  await using redis = await connect(`redis://app:secret@127.0.0.1:${server.port}`);
  await live(redis, "app");
}, 60_000);
