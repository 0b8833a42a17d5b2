/** A short life of every part of the kit, on any server. */
import type { Redis } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { expect } from "vitest";
import { GroupMembers, RecentContacts } from "../src/autocomplete/index.ts";
import { Chat } from "../src/chat/index.ts";
import { Files } from "../src/files/index.ts";
import { Lock, LockInspector, MultiLock, ReadWriteLock } from "../src/lock/index.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { Semaphore, SemaphoreInspector } from "../src/semaphore/index.ts";

/** Uses each part once, with a wait in it. */
export async function live(redis: Redis, prefix: string): Promise<void> {
  const lock = new Lock(redis, "l", { prefix });
  const first = await lock.acquire();
  const second = lock.acquire();
  expect((await new LockInspector(redis, { prefix }).list()).items).toHaveLength(1);
  await eventually(async () =>
    expect((await new LockInspector(redis, { prefix }).get("l"))?.waiting).toBe(1),
  );
  await first.release();
  expect((await second).fence).toBeGreaterThan(first.fence);
  await (await second).release();
  await new MultiLock(redis, ["a", "b"], { prefix }).run(() => {});
  await new ReadWriteLock(redis, "rw", { prefix }).read.run(() => {});

  const semaphore = new Semaphore(redis, "s", { prefix });
  const permit = await semaphore.acquire();
  const next = semaphore.acquire();
  expect((await new SemaphoreInspector(redis, { prefix }).list()).items).toHaveLength(1);
  await permit.release();
  await (await next).release();

  const mailbox = new Mailbox<number>(redis, "m", { prefix });
  const receiving = mailbox.receive({ waitMs: 5_000 });
  await mailbox.send(1);
  const [delivery] = await receiving;
  expect(await delivery?.acknowledge()).toBe(true);

  const chat = new Chat<string>(redis, { prefix });
  const controller = new AbortController();
  const room = await chat.create({ sender: "a", recipients: ["b"], message: "hello" });
  for await (const event of chat.feed("b", { signal: controller.signal })) {
    if (event.type !== "message") continue;
    await room.acknowledge("b", event.id);
    if (event.id === 2) break;
    await room.send("a", "again");
  }
  for (const user of ["a", "b"]) await room.leave(user);

  await new RecentContacts(redis, "u", { prefix }).add("x");
  const members = new GroupMembers(redis, "g", { prefix, ranked: true, fold: "accents" });
  await members.use("Änne");
  expect(await members.search("an")).toEqual(["Änne"]);
  await members.remove("Änne");
  await new RecentContacts(redis, "u", { prefix }).remove("x");

  const files = new Files(redis, "f:", { prefix });
  const content = async function* () {
    yield Buffer.from("content");
  };
  const got: string[] = [];
  const all = new Files(redis, "f:", { prefix }).receive("r", async (file) => {
    for await (const chunk of file) got.push(String(chunk));
  });
  await files.publish(content(), { receivers: ["r"], name: "n" });
  await files.end();
  expect(await all).toEqual({ files: 1, missed: [] });
  expect(got).toEqual(["content"]);
}
