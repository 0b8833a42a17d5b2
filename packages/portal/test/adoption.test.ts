/** Accounts of version 0.1, which were hashes in Redis, move into the store. */
import { openRedisStore } from "@ropeway/cluster";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { PasswordHasher } from "../src/access/hasher.ts";
import { AccessStore } from "../src/access/store.ts";
import { createPortal } from "../src/index.ts";
import { PortalKeys } from "../src/keys.ts";

const { server, redis } = await redisForFile();
const hasher = new PasswordHasher();

async function oldAccount(keys: PortalKeys, username: string, password: string): Promise<void> {
  const hash = await hasher.hash(password);
  const numbers = ["generation", "3", "createdAt", "1000", "passwordAt", "2000"];
  const fields = ["password", hash, "role", username === "root" ? "admin" : "viewer", ...numbers];
  await server.command("HSET", keys.user(username), ...fields);
  await server.command("SADD", keys.users(), username);
}

test("accounts keep password, role and generation, and no first admin is created", async () => {
  const keys = new PortalKeys("moved");
  await oldAccount(keys, "root", "correct horse");
  await oldAccount(keys, "reader", "battery staple");
  const portals = [1, 2].map(() => createPortal(redis, { prefix: "moved" }));
  const starts = await Promise.all(portals.map((portal) => portal.start()));
  expect(starts.map(({ firstAdmin }) => firstAdmin)).toEqual([undefined, undefined]);
  const store = new AccessStore(redis, keys, openRedisStore(redis, { prefix: "moved:store" }));
  const [reader, root] = [await store.account("reader"), await store.account("root")];
  expect(reader).toMatchObject({ role: "viewer", generation: 3 });
  expect(root).toMatchObject({ role: "admin", generation: 3 });
  const kept = JSON.parse(String(await server.command("GET", "moved:store:/tasks/user/root")));
  expect(await hasher.verify(kept.password, "correct horse")).toBe(true);
  expect(await server.command("EXISTS", keys.users(), keys.user("root"))).toBe(0);
  await Promise.all(portals.map((portal) => portal.close()));
});

test("a move that was cut short goes on, and does not bring back an old password", async () => {
  const keys = new PortalKeys("cut");
  await oldAccount(keys, "root", "the old password");
  const store = new AccessStore(redis, keys, openRedisStore(redis, { prefix: "cut:store" }));
  const newer = await hasher.hash("the new password");
  await store.users.adopt({
    ...{ username: "root", password: newer, role: "admin" },
    ...{ generation: 4, createdAt: 1_000, passwordAt: 3_000 },
  });
  await oldAccount(keys, "reader", "battery staple");
  expect(await store.hasAccounts()).toBe(true);
  expect(await store.account("root")).toMatchObject({ generation: 4 });
  expect((await store.accounts()).map(({ username }) => username).sort()).toEqual([
    "reader",
    "root",
  ]);
});
