import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { roomKeys } from "../src/chat/keys.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, fresh } = await twoConnections("room");

const chat = new Chat<string>(redis);

test("a room does not begin with what a program that died has left of an older one", async () => {
  const [id, user] = [fresh(), fresh()];
  const { ids, msgs, sends, joined } = roomKeys("", id);
  await server.command("SET", ids, "5");
  await server.command("ZADD", msgs, "5", '{"id": 5, "ts": 1, "sender": "x", "message": "old"}');
  await server.command("HSET", sends, "slot", "1 5 1");
  await server.command("ZADD", joined, "5", user);
  const room = await chat.create({ sender: user, recipients: [], message: "first", id });
  const { items } = await room.history();
  expect(items.map((one) => [one.id, one.message])).toEqual([[1, "first"]]);
  expect(await server.command("HEXISTS", sends, "slot")).toBe(0);
  expect(await server.command("EXISTS", joined)).toBe(0);
});

test("the stream of a room is short, however much happens in it", async () => {
  const [id, user] = [fresh(), fresh()];
  const room = await chat.create({ sender: user, recipients: [], message: "x", id });
  const length = () => server.command("XLEN", roomKeys("", id).live);
  await Promise.all(Array.from({ length: 120 }, () => room.send(user, "x")));
  expect(await length()).toBe(100);
  await Promise.all(Array.from({ length: 120 }, () => room.setTyping(user)));
  expect(await length()).toBe(100);
});

test("a member is typing until its time is over, however long others are", async () => {
  const [a, b] = [fresh(), fresh()];
  const room = await chat.create({ sender: a, recipients: [b], message: "x" });
  await room.setTyping(a, 60_000);
  await room.setTyping(b, 1);
  await eventually(async () => expect(await room.typing()).toEqual([a]));
});
