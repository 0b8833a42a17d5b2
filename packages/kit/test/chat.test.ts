import { connect, InvalidArgumentError, InvalidNameError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import {
  Chat,
  type ChatEvent,
  NotAMemberError,
  RoomExistsError,
  RoomNotFoundError,
} from "../src/chat/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh } = await twoConnections("u");

const chat = new Chat<string>(redis);

describe("rooms", () => {
  test("create, send, fetch, acknowledge; what all have read is removed", async () => {
    const [joe, jeff] = [fresh(), fresh()];
    const recipients = Object.freeze([jeff]);
    const room = await chat.create({ sender: joe, recipients, message: "message 0" });
    for (let i = 1; i < 4; i++) await room.send(joe, `message ${i}`);
    const { items } = await chat.pending(jeff);
    expect(items).toHaveLength(1);
    expect(items[0]?.messages.map(({ id, sender, message }) => [id, sender, message])).toEqual([
      [1, joe, "message 0"],
      [2, joe, "message 1"],
      [3, joe, "message 2"],
      [4, joe, "message 3"],
    ]);
    expect(items[0]?.missed).toBe(0);
    expect(await chat.pending(jeff)).toEqual({ items }); // fetching moves nothing
    expect(await room.unread(jeff)).toBe(4);
    expect(await room.acknowledge(jeff, 3)).toBe(3);
    expect(await room.unread(jeff)).toBe(1);
    expect(await server.command("ZSCORE", `seen:${jeff}`, room.id)).toBe("3");
    expect(await server.command("ZSCORE", `chat:${room.id}`, jeff)).toBe("3");
    expect((await room.inspect()).messages).toBe(4); // joe has read nothing
    await room.acknowledge(joe, 4);
    expect((await room.inspect()).messages).toBe(1);
  });

  test("two devices of one user: the cursor moves forward only, and never past the newest message", async () => {
    const [a, b] = [fresh(), fresh()];
    const room = await chat.create({ sender: a, recipients: [b], message: "1" });
    await room.send(a, "2");
    expect(await room.acknowledge(b, 2)).toBe(2);
    expect(await new Chat<string>(other).room(room.id).acknowledge(b, 1)).toBe(2);
    expect(await room.acknowledge(b, 1_000)).toBe(2);
    await room.send(a, "3");
    expect((await room.pending(b)).map(({ id }) => id)).toEqual([3]);
  });

  test("50 concurrent senders give dense ids in one order for all", async () => {
    const users = Array.from({ length: 50 }, fresh);
    const room = await chat.create({ sender: users[0] as string, recipients: users, message: "0" });
    const far = new Chat<string>(other).room(room.id);
    const ids = await Promise.all(
      users.flatMap((user, i) => [room.send(user, `a${i}`), far.send(user, `b${i}`)]),
    );
    expect(ids.sort((x, y) => x - y)).toEqual(Array.from({ length: 100 }, (_, i) => i + 2));
    const { items } = await room.history({ limit: 200 });
    expect(items.map(({ id }) => id)).toEqual(Array.from({ length: 101 }, (_, i) => 101 - i));
  });

  test("join from now or with history; the last one out removes every key", async () => {
    const [a, b, c] = [fresh(), fresh(), fresh()];
    const room = await chat.create({ sender: a, recipients: [], message: "old" });
    await room.join(b);
    await room.join(c, { history: true });
    expect(await room.unread(b)).toBe(0);
    expect((await room.pending(c)).map(({ message }) => message)).toEqual(["old"]);
    await room.acknowledge(c, 1);
    await room.join(c, { history: true }); // a member stays where it is
    expect(await room.unread(c)).toBe(0);
    await room.setTyping(b);
    await room.setPresent(c);
    expect(await room.typing()).toEqual([b]);
    expect(await room.present()).toEqual([c]);
    expect((await room.members({ limit: 2 })).items).toHaveLength(2);
    for (const user of [c, b]) expect(await room.leave(user)).toBe(true);
    expect(await room.typing()).toEqual([]);
    expect(await room.present()).toEqual([]);
    expect(await room.leave(a)).toBe(true);
    expect(await room.leave(a)).toBe(false);
    const { id } = room;
    const keys = [
      `chat:${id}`,
      `ids:${id}`,
      `msgs:${id}`,
      `chat-live:${id}`,
      `chat-typing:${id}`,
      `chat-present:${id}`,
      `chat-sends:${id}`,
    ];
    expect(await server.command("EXISTS", ...keys, `seen:${a}`, `seen:${b}`, `seen:${c}`)).toBe(0);
    await expect(room.send(a, "x")).rejects.toThrow(RoomNotFoundError);
    await expect(room.join(a)).rejects.toThrow(RoomNotFoundError);
  });

  test("a member that stays away does not keep messages for ever, and learns what it missed", async () => {
    const [a, b] = [fresh(), fresh()];
    const small = new Chat<number>(redis, { maxMessages: 5 });
    const room = await small.create({ sender: a, recipients: [b], message: 1 });
    for (let i = 2; i <= 20; i++) await room.send(a, i);
    expect((await room.inspect()).messages).toBe(5);
    const { items } = await small.pending(b);
    expect(items[0]?.messages.map(({ message }) => message)).toEqual([16, 17, 18, 19, 20]);
    expect(items[0]?.missed).toBe(15);
  });

  test("messages that are too old are removed, and a room nobody writes to forgets them by itself", async () => {
    const [a, b] = [fresh(), fresh()];
    const room = await new Chat<number>(redis, { maxAgeMs: 1_000 }).create({
      sender: a,
      recipients: [b],
      message: 1,
    });
    await server.command(
      "ZADD",
      `msgs:${room.id}`,
      "0.5",
      '{"id": 0, "ts": 1000.5, "sender": "x", "message": 0}',
    );
    await room.send(a, 2);
    expect((await room.history()).items.map(({ message }) => message)).toEqual([2, 1]);
    expect(Number(await server.command("PTTL", `msgs:${room.id}`))).toBeGreaterThan(0);
  });

  test("messages of a room that is kept without an end do not expire any more", async () => {
    const [a, b] = [fresh(), fresh()];
    const room = await chat.create({ sender: a, recipients: [b], message: "1" });
    expect(Number(await server.command("PTTL", `msgs:${room.id}`))).toBeGreaterThan(0);
    await new Chat<string>(redis, { maxAgeMs: null }).room(room.id).send(a, "2");
    expect(await server.command("PTTL", `msgs:${room.id}`)).toBe(-1);
  });

  test("keepRead keeps history that all have read; pages follow their cursor", async () => {
    const [a, b] = [fresh(), fresh()];
    const keeping = new Chat<number>(redis, { keepRead: true });
    const room = await keeping.create({ sender: a, recipients: [b], message: 1 });
    for (let i = 2; i <= 5; i++) await room.send(a, i);
    for (const user of [a, b]) await room.acknowledge(user, 5);
    const first = await room.history({ limit: 3 });
    const rest = await room.history({ limit: 3, cursor: first.cursor as string });
    expect([...first.items, ...rest.items].map(({ id }) => id)).toEqual([5, 4, 3, 2, 1]);
    expect(rest.cursor).toBeUndefined();
  });

  test("sending to 1,000 members costs what sending to two costs", async () => {
    const users = Array.from({ length: 1_000 }, fresh);
    const room = await chat.create({ sender: users[0] as string, recipients: users, message: "0" });
    expect((await room.inspect()).members).toBe(1_000);
    await server.command("CONFIG", "RESETSTAT");
    await room.send(users[1] as string, "x");
    const stats = String(await server.command("INFO", "commandstats"));
    const calls = [...stats.matchAll(/cmdstat_(\w+):calls=(\d+)/g)].filter(
      ([, name]) => !/config|info/.test(name ?? ""),
    );
    expect(calls.reduce((sum, [, , n]) => sum + Number(n), 0)).toBeLessThan(20);
  });

  test("wrong values are refused", async () => {
    const [a] = [fresh()];
    const room = await chat.create({ sender: a, recipients: [], message: "x" });
    await expect(
      chat.create({ sender: a, recipients: [], message: "x", id: room.id }),
    ).rejects.toThrow(RoomExistsError);
    expect(() => chat.room("chat:")).toThrow(InvalidArgumentError);
    expect(() => chat.room("")).toThrow(InvalidNameError);
    await expect(room.acknowledge("nobody", 1)).rejects.toThrow(NotAMemberError);
    await expect(room.acknowledge(a, Number.NaN)).rejects.toThrow(InvalidArgumentError);
    await expect(room.setTyping("nobody")).rejects.toThrow(NotAMemberError);
    await expect(room.setTyping(a, -1)).rejects.toThrow(InvalidArgumentError);
    await expect(room.send(a, undefined as unknown as string)).rejects.toThrow(
      InvalidArgumentError,
    );
    expect((await chat.rooms({ search: room.id })).items.some(({ id }) => id === room.id)).toBe(
      true,
    );
    expect((await chat.unread(a)).items).toEqual([{ room: room.id, unread: 1 }]);
  });
});

test("a message is sent also if the lock of the room was lost before it", async () => {
  const chat = new Chat<string>(redis);
  const room = await chat.create({ sender: "a", recipients: ["b"], message: "first" });
  const { lock, queue, waiters } = lockKeys("", `chat:${room.id}`);
  await server.command("SET", lock, "theirs");
  const sending = room.send("a", "second");
  let token = "";
  await eventually(async () => {
    [token = ""] = (await server.command("ZRANGE", queue, "0", "0")) as string[];
    expect(token).not.toBe("");
  });
  // It is woken as the holder, and is not any more.
  const place = String(await server.command("HGET", waiters, token));
  await server.command("RPUSH", place.split(" ")[2] as string, `${token} 1`);
  await eventually(async () =>
    expect(await server.command("ZRANGE", queue, "0", "-1")).not.toContain(token),
  );
  await server.command("DEL", lock);
  expect(await sending).toBe(2);
  expect((await room.pending("b")).map(({ message }) => message)).toEqual(["first", "second"]);
});

test("a room is not made for a message that cannot be sent", async () => {
  const small = new Chat<string>(redis, { maxMessageBytes: 10 });
  const id = `too-large-${fresh()}`;
  const create = small.create({ sender: "a", recipients: [], message: "x".repeat(20), id });
  await expect(create).rejects.toThrow(InvalidArgumentError);
  expect(await server.command("EXISTS", `chat:${id}`)).toBe(0);
});

describe("live feed", () => {
  test("a member that has left gets nothing that is sent afterwards", async () => {
    const [a, b] = [fresh(), fresh()];
    const left = await chat.create({ sender: a, recipients: [b], message: "first" });
    const controller = new AbortController();
    const seen: string[] = [];
    const feed = (async () => {
      for await (const event of chat.feed(b, { signal: controller.signal })) {
        if (event.type === "message") seen.push(event.message);
      }
    })();
    await eventually(() => expect(seen).toEqual(["first"]));
    const stays = await chat.create({ sender: a, recipients: [b], message: "second" });
    await eventually(() => expect(seen).toEqual(["first", "second"]));
    await left.leave(b);
    for (const message of ["third", "fourth"]) {
      await left.send(a, "not for b");
      await stays.send(a, message);
      await eventually(() => expect(seen).toContain(message));
    }
    expect(seen).toEqual(["first", "second", "third", "fourth"]);
    controller.abort();
    await feed;
  });

  test("a room that ended and was made again is followed from its first message", async () => {
    const [a, b, id] = [fresh(), fresh(), `again-${fresh()}`];
    const make = () => chat.create({ sender: a, recipients: [b], message: "first", id });
    const room = await make();
    for (let i = 0; i < 5; i++) await room.send(a, "old");
    const controller = new AbortController();
    const seen: string[] = [];
    const feed = (async () => {
      for await (const event of chat.feed(b, { signal: controller.signal })) {
        if (event.type === "message") seen.push(event.message);
      }
    })();
    await eventually(() => expect(seen).toHaveLength(6));
    for (const user of [a, b]) await room.leave(user);
    await make();
    await room.send(a, "new");
    await eventually(() => expect(seen.slice(6)).toEqual(["first", "new"]));
    controller.abort();
    await feed;
  });

  test("a busy room costs a feed of many rooms one read per burst, not a look at every room", async () => {
    const [a, b] = [fresh(), fresh()];
    const make = () => chat.create({ sender: a, recipients: [b], message: "" });
    const [room] = await Promise.all(Array.from({ length: 30 }, make));
    const controller = new AbortController();
    let seen = 0;
    const feed = (async () => {
      for await (const event of chat.feed(b, { signal: controller.signal })) {
        if (event.type === "message") seen += 1;
      }
    })();
    await eventually(() => expect(seen).toBe(30));
    const looks = async () => {
      const stats = String(await server.command("INFO", "commandstats"));
      return Number(/cmdstat_mget:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    const before = await looks();
    const startedAt = performance.now();
    for (let i = 0; i < 200; i++) await room?.send(a, "x");
    await eventually(() => expect(seen).toBe(230));
    // The reader compares about once a second and the feed every two seconds, however much is sent.
    const seconds = (performance.now() - startedAt) / 1_000;
    expect((await looks()) - before).toBeLessThanOrEqual(4 + 2 * seconds);
    controller.abort();
    await feed;
  });

  test("messages of other programs that are no JSON are passed over, however many they are", async () => {
    const [a, b] = [fresh(), fresh()];
    const room = await chat.create({ sender: a, recipients: [b], message: "first" });
    for (let i = 2; i <= 251; i++) {
      await server.command("ZADD", `msgs:${room.id}`, String(i), `garbage ${i}`);
    }
    await server.command("SET", `ids:${room.id}`, "251");
    await room.send(a, "last");
    expect((await room.pending(b)).map(({ id }) => id)).toEqual([1, 252]);
    expect((await room.history({ limit: 2 })).items.map(({ id }) => id)).toEqual([252, 1]);
    const seen: string[] = [];
    for await (const event of chat.feed(b, { signal: new AbortController().signal })) {
      if (event.type === "message") seen.push(event.message);
      if (seen.at(-1) === "last") break;
    }
    expect(seen).toEqual(["first", "last"]);
  });

  test("a backlog is read page after page, without a pause between them", async () => {
    const [a, b] = [fresh(), fresh()];
    const room = await chat.create({ sender: a, recipients: [b], message: "" });
    const pages = 20; // a pause of two seconds after each would be longer than a test may take
    await Promise.all(Array.from({ length: 100 * pages }, () => room.send(a, "")));
    let seen = 0;
    for await (const event of chat.feed(b, { signal: new AbortController().signal })) {
      if (event.type !== "message") continue;
      seen += 1;
      expect(event.id).toBe(seen);
      if (seen > 100 * pages) break;
    }
  });

  test("pending first, then what happens, over one connection for all feeds", async () => {
    const [a, b] = [fresh(), fresh()];
    const room = await chat.create({ sender: a, recipients: [b], message: "first" });
    const controller = new AbortController();
    const { signal } = controller;
    const seen: string[] = [];
    const take = async (user: string) => {
      for await (const event of chat.feed(user, { signal })) {
        seen.push(event.type === "message" ? `${user}:${event.message}` : `${user}:${event.type}`);
      }
    };
    const feeds = [take(a), take(b)];
    await eventually(() => expect(seen.sort()).toEqual([`${a}:first`, `${b}:first`]));
    const live = async () =>
      (await server.clients()).filter(({ name }) => name === "ropeway:kit-chat").length;
    expect(await live()).toBe(1);
    await new Chat<string>(other).room(room.id).send(b, "second");
    await room.setTyping(b);
    await eventually(() => expect(seen).toHaveLength(6));
    const later = await chat.create({ sender: b, recipients: [a], message: "other room" });
    await eventually(() => expect(seen).toContain(`${a}:other room`));
    await later.send(b, "more");
    await eventually(() => expect(seen).toContain(`${a}:more`));
    expect(await live()).toBe(1);
    controller.abort();
    await Promise.all(feeds);
    await eventually(async () => expect(await live()).toBe(0));
  });

  test("no gap over a restart of Redis", async () => {
    await using own = await (await import("@ropeway/testkit")).startRedis({ appendonly: true });
    await using mine = await connect(own.url);
    const restarted = new Chat<number>(mine);
    const room = await restarted.create({ sender: "a", recipients: ["b"], message: 1 });
    const controller = new AbortController();
    const seen: number[] = [];
    const feed = (async () => {
      for await (const event of restarted.feed("b", { signal: controller.signal })) {
        if (event.type === "message")
          seen.push((event as ChatEvent<number> & { type: "message" }).message);
      }
    })();
    for (let i = 2; i <= 10; i++) await room.send("a", i);
    await own.kill9();
    await own.start();
    for (let i = 11; i <= 20; i++) await eventually(() => room.send("a", i));
    await eventually(() => expect(seen).toEqual(Array.from({ length: 20 }, (_, i) => i + 1)));
    controller.abort();
    await feed;
  });
});

test("what a documented program does not know of expires if it leaves last", async () => {
  const [id, user] = [fresh(), fresh()];
  const room = await chat.create({ sender: user, recipients: [], message: "x", id });
  await room.setPresent(user);
  const later = fresh();
  await chat.create({ sender: user, recipients: [], message: "x", id: later });
  for (const key of [`chat-live:${id}`, `chat-live:${later}`, `chat-present:${id}`]) {
    expect(Number(await server.command("PTTL", key))).toBeGreaterThan(0);
  }
});

test("a message of another program whose time is none has the time 0", async () => {
  const [id, user] = [fresh(), fresh()];
  const room = await chat.create({ sender: user, recipients: [], message: "x", id });
  const times = [1.79e15, "now", null, -1e300];
  for (const [i, ts] of times.entries()) {
    const message = JSON.stringify({ id: i + 2, ts, sender: "s", message: "m" });
    await server.command("ZADD", `msgs:${id}`, String(i + 2), message);
  }
  const { items } = await room.history();
  expect(items.slice(0, times.length).map(({ sentAt }) => sentAt)).toEqual([0, 0, 0, 0]);
});
