import { InvalidArgumentError, InvalidNameError, InvalidOptionError } from "@ropeway/core";
import { expect, test } from "vitest";
import { GroupMembers, RecentContacts } from "../src/autocomplete/index.ts";
import { Chat } from "../src/chat/index.ts";
import { Files } from "../src/files/index.ts";
import { Lock, LockInspector, MultiLock } from "../src/lock/index.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { Semaphore, SemaphoreInspector } from "../src/semaphore/index.ts";
import { twoConnections } from "./two-connections.ts";

const { redis, fresh } = await twoConnections("a");

const circle: { self?: unknown } = {};
circle.self = circle;
const notOptions = [5, "x", [], true, () => {}, { unknown: 1 }];
const notFunctions = [null, undefined, 5, {}];
const wrong = (value: unknown) => value as never;

const room = async () => new Chat(redis).create({ sender: "a", recipients: ["b"], message: 1 });
const several = (options: object) => new MultiLock(redis, [fresh(), fresh()]).acquire(options);
const calls: readonly [string, (value: never) => Promise<unknown>, readonly unknown[]][] = [
  ["message of a mailbox", (v) => new Mailbox(redis, fresh()).send(v), [10n, circle, () => {}]],
  ["deliveries", (v) => new Mailbox(redis, fresh()).acknowledge(v), [null, "xs", 5, {}, [5], [{}]]],
  ["options of listen()", (v) => new Mailbox(redis, "m").listen(v).next(), [5, "x", { signal: 5 }]],
  ["wait for several locks", (waitMs) => several({ waitMs }), [-1, NaN, Number.POSITIVE_INFINITY]],
  ["source of a file", (v) => new Files(redis, "f:").publish(v, { receivers: ["r"] }), [5, null]],
  ["handler of files", (v) => new Files(redis, "f:").receive("r", v), [5, null, undefined]],
  ["cursor of peek()", (cursor) => new Mailbox(redis, "m").peek({ cursor }), [5, "1e3", "-1", " "]],
  ["message of a room", async (v) => (await room()).send("a", v), [10n, circle, undefined]],
  [
    "recipients",
    (recipients) => new Chat(redis).create({ sender: "a", recipients, message: 1 }),
    ["bob", null, 5, {}],
  ],
  ["user of pending()", async (v) => (await room()).pending(v), [5, null, "", "\ud800"]],
  ["user of unread()", async (v) => (await room()).unread(v), [5, undefined, "\ud800"]],
  ["user of setTyping()", async (v) => (await room()).setTyping(v), [5, null, ""]],
  ["cursor of history()", async (cursor) => (await room()).history({ cursor }), [5, 1e21, {}]],
  ["search of rooms()", (search) => new Chat(redis).rooms({ search }), [5, null, {}]],
  ["cursor of rooms()", (cursor) => new Chat(redis).rooms({ cursor }), [5, 10n, "x"]],
  ["search of locks", (search) => new LockInspector(redis).list({ search }), [5, null]],
  ["search of semaphores", (search) => new SemaphoreInspector(redis).list({ search }), [5, null]],
  ["token of break()", (token) => new LockInspector(redis).break("l", token), ["", null, 5]],
  ["options of acquire()", (v) => new Lock(redis, fresh()).acquire(v), notOptions],
  ["options of tryAcquire()", (v) => new Lock(redis, fresh()).tryAcquire(v), notOptions],
  ["options of several locks", (v) => several(v), notOptions],
  ["names of several locks", async (v) => new MultiLock(redis, [v]), [5, null, Symbol("s")]],
  ["options of a permit", (v) => new Semaphore(redis, fresh()).acquire(v), notOptions],
  ["options of a permit now", (v) => new Semaphore(redis, fresh()).tryAcquire(v), notOptions],
  ["work under a lock", (v) => new Lock(redis, fresh()).run(v), notFunctions],
  ["work under several locks", (v) => new MultiLock(redis, [fresh()]).run(v), notFunctions],
  ["work with a permit", (v) => new Semaphore(redis, fresh()).run(v), notFunctions],
  ["options of peek()", (v) => new Mailbox(redis, "m").peek(v), notOptions],
  ["options of deadLetters()", (v) => new Mailbox(redis, "m").deadLetters(v), notOptions],
  ["a new room", (v) => new Chat(redis).create(v), [...notOptions, null, undefined]],
  ["options of pending()", (v) => new Chat(redis).pending("a", v), notOptions],
  ["options of join()", async (v) => (await room()).join("c", v), notOptions],
  ["history", async (history) => (await room()).join("c", { history }), [5, null, "no"]],
  ["options of rooms()", (v) => new Chat(redis).rooms(v), notOptions],
  ["options of a list of locks", (v) => new LockInspector(redis).list(v), notOptions],
  ["options of a list of semaphores", (v) => new SemaphoreInspector(redis).list(v), notOptions],
  ["options of transfers()", (v) => Files.transfers(redis, v), notOptions],
  ["connection of transfers()", (v) => Files.transfers(v), [5, null, {}]],
  ["options of contacts", (v) => new RecentContacts(redis, "u").search("a", v), notOptions],
  ["options of members", (v) => new GroupMembers(redis, "g").search("a", v), notOptions],
  ["contact to remove", (v) => new RecentContacts(redis, "u").remove(v), [5, null, "\ud800"]],
];

test("options that are null are the defaults", async () => {
  const none = wrong(null);
  await (await new Lock(redis, fresh()).acquire(none)).release();
  await (await new Semaphore(redis, fresh()).tryAcquire(none))?.release();
  expect(await new Mailbox(redis, fresh()).peek(none)).toEqual({ items: [] });
  expect(await new GroupMembers(redis, fresh()).search("a", none)).toEqual([]);
  expect(await new RecentContacts(redis, fresh()).search("a", none)).toEqual([]);
  await (await room()).join("c", none);
  await Files.transfers(redis, none);
});

test.each(calls)("a wrong value is refused by a typed error: %s", async (_what, call, values) => {
  for (const value of values) {
    const error = await Promise.resolve()
      .then(() => call(wrong(value)))
      .then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
    const typed = [InvalidArgumentError, InvalidNameError, InvalidOptionError];
    expect(typed.some((type) => error instanceof type)).toBe(true);
  }
});
