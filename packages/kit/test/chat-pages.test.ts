/** Pages of a user's rooms, whose order changes while they are read. */
import { InvalidOptionError, type Page } from "@ropeway/core";
import { expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { twoConnections } from "./two-connections.ts";

const { redis, fresh } = await twoConnections("pages");

test("a pass over pending() that acknowledges skips no room, and neither does one over unread()", async () => {
  const chat = new Chat<number>(redis);
  const user = `u-${fresh()}`;
  const ids = Array.from({ length: 30 }, () => fresh()).sort();
  for (const [i, id] of ids.entries()) {
    const room = await chat.create({ sender: "s", recipients: [user], message: 0, id });
    for (let k = 0; k < i % 3; k++) await room.send("s", k);
  }
  const listed: string[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await chat.unread(user, { limit: 10, cursor });
    listed.push(...page.items.map(({ room }) => room));
    cursor = page.cursor;
  }
  expect(listed.sort()).toEqual(ids);
  const handled: string[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await chat.pending(user, { limit: 10, cursor });
    for (const { room, messages } of page.items) {
      handled.push(room);
      await chat.room(room).acknowledge(user, messages.at(-1)?.id ?? 0);
    }
    cursor = page.cursor;
  }
  expect(handled.sort()).toEqual(ids);
  expect(await chat.pending(user)).toEqual({ items: [] });
});

test("a pass over the members skips none, also if they acknowledge meanwhile", async () => {
  const chat = new Chat<number>(redis);
  const users = Array.from({ length: 30 }, (_, i) => `u-${i}`);
  const room = await chat.create({ sender: "s", recipients: users, message: 0, id: fresh() });
  const id = await room.send("s", 1);
  const listed = new Set<string>();
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await room.members({ limit: 10, cursor });
    for (const { user } of page.items) {
      listed.add(user);
      await room.acknowledge(user, id);
    }
    cursor = page.cursor;
  }
  expect([...listed].sort()).toEqual(["s", ...users].sort());
  expect((await room.members({ limit: 31 })).cursor).toBeUndefined();
});

test("a cursor has no character that a shell or a terminal would interpret, whatever the names are", async () => {
  const chat = new Chat<number>(redis);
  const names = ["a: $(id) 'b' `c`\n", "\x1b]0;title\x07", "Ä😀"].map((one) => one + fresh());
  const [id, ...others] = names as [string, string, string];
  const room = await chat.create({ sender: "s", recipients: names, message: 0, id });
  for (const other of others) {
    await chat.create({ sender: "s", recipients: [id], message: 0, id: other });
  }
  const all = async (read: (cursor?: string) => Promise<Page<unknown>>) => {
    const found: unknown[] = [];
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
      const page = await read(cursor);
      expect(page.cursor ?? "0:A").toMatch(/^\d+:[\w-]+$/);
      found.push(...page.items);
      cursor = page.cursor;
    }
    return found;
  };
  const listed = await all((cursor) => room.members({ limit: 1, cursor }));
  expect(new Set(listed)).toEqual(new Set(["s", ...names].map((user) => ({ user, cursor: 0 }))));
  expect(listed).toHaveLength(4);
  const rooms = await all((cursor) => chat.unread(id, { limit: 1, cursor }));
  expect(rooms).toHaveLength(3);
  expect(new Set(rooms)).toEqual(new Set(names.map((name) => ({ room: name, unread: 1 }))));
});

test("a cursor that is of no page is refused", async () => {
  for (const cursor of ["50", "x:room", "7:", ":room", "7:a b"]) {
    await expect(new Chat(redis).pending("u", { cursor })).rejects.toThrow(InvalidOptionError);
    await expect(new Chat(redis).unread("u", { cursor })).rejects.toThrow(InvalidOptionError);
    await expect(new Chat(redis).room("r").members({ cursor })).rejects.toThrow(InvalidOptionError);
  }
});
