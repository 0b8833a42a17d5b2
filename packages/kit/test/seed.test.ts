/** Programs written literally from the document, and ours, on the same keys. */
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { describe, expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { Lock, NotAcquiredError } from "../src/lock/index.ts";
import { Semaphore } from "../src/semaphore/index.ts";
import { seed } from "./seed.ts";

const { server, redis } = await redisForFile();
const py = (name: string, ...args: readonly unknown[]) => seed(server.port, name, ...args);

describe("locks", () => {
  test("a lock of theirs excludes ours until they release it, and ours excludes theirs", async () => {
    const theirs = py("hold_lock", "market:", "let-go");
    await eventually(() => expect(theirs.lines).toEqual(["holding"]));
    expect(await new Lock(redis, "market:").tryAcquire()).toBeUndefined();
    const acquiring = new Lock(redis, "market:").acquire();
    await server.command("SET", "let-go", "1");
    const held = await acquiring;
    expect(await theirs.result).toBe(true);
    expect(await py("acquire_lock", "market:", 0.05).result).toBe(false);
    expect(await py("acquire_lock_with_timeout", "market:", 0.05).result).toBe(false);
    expect(await py("release_lock", "market:", "not ours").result).toBe(false);
    expect(await held.release()).toBe(true);
    const token = await py("acquire_lock_with_timeout", "market:", 1, 1).result;
    const next = await new Lock(redis, "market:").acquire({ waitMs: 5_000 }); // after theirs has expired
    expect(next.token).not.toBe(token);
    await next.release();
  }, 60_000); // every call of theirs starts a process

  test("a counter read and written under the lock loses nothing", async () => {
    const theirs = [py("count_under_lock", "count", 60), py("count_under_lock", "count", 60)];
    const lock = new Lock(redis, "count");
    const ours = Array.from({ length: 4 }, async () => {
      for (let i = 0; i < 30; i++) {
        await lock.run(
          async () => {
            const value = Number((await redis.send(["GET", "counted"])) ?? 0);
            await redis.send(["SET", "counted", String(value + 1)]);
          },
          { waitMs: 60_000 },
        );
      }
    });
    await Promise.all([...ours, ...theirs.map(({ result }) => result)]);
    expect(await server.command("GET", "counted")).toBe("240");
  }, 60_000);
});

test.each([0, -3_600, 1])(
  "a semaphore shared with theirs never admits more than the limit, clocks %i s ahead",
  async (offset) => {
    const count = () => py("skewed", offset, "count_under_semaphore", "sem", 3, 30);
    const theirs = [count(), count()];
    const semaphore = new Semaphore(redis, "sem", { limit: 3 });
    let highest = 0;
    const ours = Array.from({ length: 4 }, async () => {
      for (let i = 0; i < 30; i++) {
        await semaphore.run(
          async () => {
            highest = Math.max(highest, Number(await redis.send(["INCR", "inside"])));
            await redis.send(["DECR", "inside"]);
          },
          { waitMs: 60_000 },
        );
      }
    });
    await Promise.all(ours);
    for (const { result } of theirs) highest = Math.max(highest, Number(await result));
    expect(highest).toBeGreaterThan(0);
    expect(highest).toBeLessThanOrEqual(3);
    expect(await server.command("EXISTS", "sem", "sem:owner", "sem:leases", "sem:queue")).toBe(0);
  },
  60_000,
);

describe("chat", () => {
  const chat = new Chat<unknown>(redis);

  // Every step of theirs is a process of its own, which takes its time on a busy machine.
  test("rooms of theirs are rooms of ours, and the other way round", {
    timeout: 180_000,
  }, async () => {
    expect(await py("create_chat", "joe", ["jeff", "jenny"], "message 0").result).toBe("1");
    for (let i = 1; i < 4; i++) await py("send_message", "1", "joe", `message ${i}`).result;
    const room = chat.room("1");
    const mine = (await chat.pending("jeff")).items[0];
    expect(mine?.messages.map(({ id, message }) => [id, message])).toEqual([
      [1, "message 0"],
      [2, "message 1"],
      [3, "message 2"],
      [4, "message 3"],
    ]);
    await room.send("jenny", "from ours");
    const theirs = (await py("fetch_pending_messages", "jenny").result) as [
      string,
      { id: number; message: string; sender: string; ts: number }[],
    ][];
    expect(theirs[0]?.[0]).toBe("1");
    expect(theirs[0]?.[1].map(({ id, message }) => [id, message])).toEqual([
      ...(mine?.messages.map(({ id, message }) => [id, message]) ?? []),
      [5, "from ours"],
    ]);
    expect(await room.unread("jenny")).toBe(0); // their fetch moves cursors
    await room.acknowledge("jeff", 5);
    await py("fetch_pending_messages", "joe").result; // and deletes what all have read
    expect((await room.inspect()).messages).toBe(0);
    await py("join_chat", "1", "anna").result;
    await room.send("joe", "hello anna");
    expect((await room.pending("anna")).map(({ message }) => message)).toEqual(["hello anna"]);
    for (const user of ["joe", "jeff"]) await py("leave_chat", "1", user).result;
    for (const user of ["jenny", "anna"]) await room.leave(user);
    expect(
      await server.command(
        "EXISTS",
        "chat:1",
        "msgs:1",
        "ids:1",
        "chat-live:1",
        "seen:joe",
        "seen:anna",
      ),
    ).toBe(0);
  });

  test("nothing is sent while one of theirs holds the lock of the room", async () => {
    const hasty = new Chat<string>(redis, { lockWaitMs: 50 });
    await hasty.create({ sender: "a", recipients: ["b"], message: "1", id: "locked" });
    await server.command("SET", "lock:chat:locked", "uuid");
    await expect(hasty.room("locked").send("a", "2")).rejects.toThrow(NotAcquiredError);
    expect(await server.command("GET", "ids:locked")).toBe("1");
    const sending = chat.room("locked").send("a", "2"); // waits longer
    await eventually(async () =>
      expect(await server.command("ZCARD", "lock-queue:{lock:chat:locked}")).toBe(1),
    );
    await server.command("DEL", "lock:chat:locked");
    expect(await sending).toBe(2);
  });

  test("no reader's cursor jumps over a message while both kinds send", async () => {
    const room = await chat.create({
      sender: "a",
      recipients: ["reader", "b", "c"],
      message: "first",
      id: "mixed",
    });
    const theirs = [py("send_many", "mixed", "b", 60), py("send_many", "mixed", "c", 60)];
    const seen: number[] = [1];
    await room.acknowledge("reader", 1);
    let sending = true;
    const reading = (async () => {
      for (;;) {
        const messages = await room.pending("reader", { limit: 1_000 });
        for (const { id } of messages) seen.push(id);
        const last = messages.at(-1);
        if (last !== undefined) await room.acknowledge("reader", last.id);
        else if (!sending) return;
      }
    })();
    for (let i = 0; i < 60; i++) await room.send("a", i);
    await Promise.all(theirs.map(({ result }) => result));
    sending = false;
    await reading;
    expect(seen).toEqual(Array.from({ length: 181 }, (_, i) => i + 1));
  }, 60_000);

  test("a live feed yields what theirs send", async () => {
    await chat.create({ sender: "x", recipients: ["y"], message: 0, id: "live" });
    const controller = new AbortController();
    const seen: unknown[] = [];
    const feed = (async () => {
      for await (const event of chat.feed("y", { signal: controller.signal })) {
        if (event.type === "message") seen.push(event.message);
      }
    })();
    await eventually(() => expect(seen).toEqual([0]));
    await py("send_message", "live", "x", "theirs", 0.2).result;
    await eventually(() => expect(seen).toEqual([0, "theirs"]));
    controller.abort();
    await feed;
  });
});
