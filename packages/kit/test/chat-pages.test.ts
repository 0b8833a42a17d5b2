/** Pages of a user's rooms, whose order changes while they are read. */
import { InvalidOptionError } from "@ropeway/core";
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

test("a cursor that is of no page is refused", async () => {
  for (const cursor of ["50", "x:room", "7:", ":room"]) {
    await expect(new Chat(redis).pending("u", { cursor })).rejects.toThrow(InvalidOptionError);
    await expect(new Chat(redis).unread("u", { cursor })).rejects.toThrow(InvalidOptionError);
  }
});
