import { openRedisStore } from "@ropeway/cluster";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { AuditLog } from "../src/access/audit-log.ts";

const { redis } = await redisForFile();

test("trimming keeps the newest entries, over any number of pages, and none below the bound", async () => {
  await using store = openRedisStore(redis);
  const log = new AuditLog(store);
  const about = {
    actor: "ann",
    via: "token",
    from: "127.0.0.1",
    action: "stop",
    subject: "",
    requestId: "r",
  };
  for (let n = 0; n < 1_250; n += 50) {
    await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        log.begin({ ...about, path: `/api/tasks/${n + i}`, outcome: "done", status: 200 }),
      ),
    );
  }
  const newest = (await log.list({ limit: 500 })).items;
  await log.trim(120);
  const kept = await log.list({ limit: 500 });
  expect(kept.cursor).toBeUndefined();
  expect(kept.items).toEqual(newest.slice(0, 120));
  await log.trim(120);
  expect((await log.list({ limit: 500 })).items).toHaveLength(120);
}, 30_000);

test("who adds many entries pushes out their own, and failed logins under many names only each other", async () => {
  await using store = openRedisStore(redis, { prefix: "fair:store" });
  const log = new AuditLog(store);
  const about = {
    from: "127.0.0.1",
    action: "a",
    path: "/",
    subject: "",
    requestId: "r",
    status: 0,
  };
  const add = (actor: string, via: string, outcome: "done" | "refused") =>
    log.begin({ ...about, actor, via, outcome });
  for (let n = 0; n < 10; n++) await add("admin", "cookie", "done");
  for (let n = 0; n < 5; n++) await add("admin", "-", "done"); // signed in
  for (let n = 0; n < 60; n++) await add("noisy", "bearer", "done");
  for (let n = 0; n < 60; n++) await add(`guess${n}`, "-", "refused");
  const newest = (await log.list({ actor: "noisy", limit: 500 })).items;
  await log.trim(55);
  const { items } = await log.list({ limit: 500 });
  const of = (actor: string) => items.filter((entry) => entry.actor === actor);
  expect(items).toHaveLength(55);
  expect(of("admin")).toHaveLength(15);
  expect(of("noisy")).toEqual(newest.slice(0, 20));
  expect(items.filter(({ actor }) => actor.startsWith("guess"))).toHaveLength(20);
  await log.trim(30);
  const rest = (await log.list({ limit: 500 })).items.map(({ actor }) => actor.slice(0, 5));
  expect(
    ["admin", "noisy", "guess"].map((who) => rest.filter((one) => one === who).length),
  ).toEqual([10, 10, 10]);
}, 30_000);

test("pages of one account have every entry of it, and none of others", async () => {
  await using store = openRedisStore(redis, { prefix: "paged:store" });
  const log = new AuditLog(store);
  const about = { via: "token", from: "127.0.0.1", action: "a", path: "/", subject: "" };
  const end = { requestId: "r", outcome: "done", status: 200 } as const;
  for (let n = 0; n < 5; n++) {
    for (const actor of ["ann", "bob"]) await log.begin({ ...about, ...end, actor });
  }
  const seen: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await log.list({ actor: "ann", limit: 3, cursor });
    seen.push(...page.items.map(({ id }) => id));
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  const { items } = await log.list({ limit: 500 });
  expect(seen).toEqual(items.filter(({ actor }) => actor === "ann").map(({ id }) => id));
  expect(seen).toHaveLength(5);
});

test("pages go past keys of other programs", async () => {
  await using store = openRedisStore(redis, { prefix: "foreign:store" });
  const log = new AuditLog(store);
  const about = { via: "cli", from: "h", action: "a", path: "p", subject: "", requestId: "" };
  for (const actor of ["ann", "bob", "cid"]) {
    await log.begin({ ...about, actor, outcome: "done", status: 200 });
  }
  const [newest] = (await log.list()).items;
  for (const name of ["0", `${newest?.id}/0`, `${newest?.id}/1`, "9/0"]) {
    await store.put(`/tasks/audit/${name}`, "not ours");
  }
  const actors: string[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages === 0 || (cursor !== undefined && pages < 10); pages++) {
    const page = await log.list({ limit: 1, cursor });
    actors.push(...page.items.map(({ actor }) => actor));
    cursor = page.cursor;
  }
  expect(actors.sort()).toEqual(["ann", "bob", "cid"]);
  expect(cursor).toBeUndefined();
});
