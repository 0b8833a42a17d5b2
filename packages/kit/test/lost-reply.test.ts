import { connect } from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { GroupMembers } from "../src/autocomplete/index.ts";
import { Chat } from "../src/chat/index.ts";
import { Files } from "../src/files/index.ts";
import { type Delivery, Mailbox } from "../src/mailbox/index.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, fresh } = await twoConnections("r");

test("messages whose replies were lost are in the mailbox once, in order", async () => {
  await using proxy = await startProxy(server);
  await using cut = await connect(proxy.url);
  const name = fresh();
  const box = new Mailbox<number>(cut, name);
  await box.send(0);
  for (let i = 1; i <= 20; i++) {
    const sending = box.send(i);
    await new Promise((resolve) => setImmediate(resolve));
    proxy.cut();
    await sending;
  }
  const received = await new Mailbox<number>(redis, name).receive({ max: 100 });
  expect(received.map(({ message }) => message)).toEqual(Array.from({ length: 21 }, (_, i) => i));
});

test("messages whose replies were lost are in the room once, with dense ids", async () => {
  await using proxy = await startProxy(server);
  await using cut = await connect(proxy.url);
  const chat = new Chat<number>(cut);
  const room = await chat.create({ sender: "a", recipients: ["b"], message: 0 });
  for (let i = 1; i <= 20; i++) {
    const sending = room.send("a", i);
    await new Promise((resolve) => setImmediate(resolve));
    proxy.cut();
    expect(await sending).toBe(i + 1);
  }
  const { items } = await new Chat<number>(redis).pending("b");
  expect(items[0]?.messages.map(({ message }) => message)).toEqual(
    Array.from({ length: 21 }, (_, i) => i),
  );
});

test("thousands of sends whose replies were lost at once are stored once each", {
  timeout: 60_000,
}, async () => {
  await using proxy = await startProxy(server);
  await using cut = await connect(proxy.url);
  const many = 1_500; // more than a script keeps without looking for old ones
  const name = fresh();
  const box = new Mailbox<number>(cut, name);
  const room = await new Chat<number>(cut).create({ sender: "a", recipients: ["b"], message: -1 });
  const all = Array.from({ length: many }, (_, i) => i);
  const stored = async () => [
    Number(await server.command("LLEN", `mailbox:${name}`)),
    Number(await server.command("GET", `ids:${room.id}`)) - 1,
  ];
  const sends: ((n: number) => Promise<unknown>)[] = [(n) => box.send(n), (n) => room.send("a", n)];
  for (const [i, send] of sends.entries()) {
    proxy.delay(2_000); // the requests arrive; the replies are still on their way when the connection ends
    const sending = Promise.all(all.map(send));
    await eventually(async () => expect((await stored())[i]).toBe(many), { withinMs: 20_000 });
    proxy.cut();
    await proxy.heal();
    await sending;
  }
  expect(await stored()).toEqual([many, many]);
});

test("a reply that is lost for certain: the message was stored, and is found when it is sent again", async () => {
  await using proxy = await startProxy(server);
  await using cut = await connect(proxy.url);
  const name = fresh();
  const box = new Mailbox<string>(cut, name);
  await box.send("first");
  proxy.delay(1_500); // the request arrives; the reply is still on its way when the connection ends
  const sending = box.send("second");
  await eventually(async () => expect(await server.command("LLEN", `mailbox:${name}`)).toBe(2));
  // Somebody else has dealt with it before it is sent again.
  const reader = new Mailbox<string>(redis, name);
  await reader.acknowledge(await reader.receive({ max: 10 }));
  proxy.cut();
  await proxy.heal();
  await sending;
  expect(await reader.counts()).toEqual({ waiting: 0, taken: 0, dead: 0 });
});

test("members are added, indexed and removed although replies are lost; a use is not counted twice", async () => {
  await using proxy = await startProxy(server);
  await using cut = await connect(proxy.url);
  const members = new GroupMembers(cut, fresh(), { fold: "case" });
  await members.add("Ada");
  const steps = {
    add: () => members.add("Bob"),
    reindex: () => members.reindex(),
    remove: () => members.remove("Ada"),
  };
  for (const step of Object.values(steps)) {
    const running = step();
    await new Promise((resolve) => setImmediate(resolve));
    proxy.cut();
    await running;
  }
  expect(await members.search("")).toEqual(["Bob"]);
  proxy.delay(500); // the connection ends before a reply can come
  const using = expect(members.use("Bob")).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  await new Promise((resolve) => setImmediate(resolve));
  proxy.cut();
  await using;
});

test("an acknowledgement whose reply was lost is one, also when it is sent again", async () => {
  const verbs = {
    acknowledge: (_box: Mailbox<number>, [one]: Delivery<number>[]) => one?.acknowledge(),
    "acknowledge several": async (box: Mailbox<number>, all: Delivery<number>[]) =>
      (await box.acknowledge(all))[0],
    release: (_box: Mailbox<number>, [one]: Delivery<number>[]) => one?.release(),
  };
  for (const [verb, settle] of Object.entries(verbs)) {
    await using proxy = await startProxy(server);
    await using cut = await connect(proxy.url);
    const name = fresh();
    const box = new Mailbox<number>(cut, name);
    await box.send(1);
    const deliveries = await box.receive();
    proxy.delay(1_500); // the request arrives; the reply is still on its way when the connection ends
    const settling = settle(box, deliveries);
    const reader = new Mailbox<number>(redis, name);
    await eventually(async () => expect((await reader.counts()).taken).toBe(0));
    proxy.cut();
    await proxy.heal();
    expect([verb, await settling]).toEqual([verb, true]);
    expect(await deliveries[0]?.acknowledge()).toBe(false); // the second one changes nothing
    expect((await reader.counts()).waiting).toBe(verb === "release" ? 1 : 0);
  }
});

test("a message that is put back is not taken from its next receiver when the reply was lost", async () => {
  await using proxy = await startProxy(server);
  await using cut = await connect(proxy.url);
  const name = fresh();
  const reader = new Mailbox<number>(redis, name);
  await reader.send(1);
  const controller = new AbortController();
  proxy.delay(500); // the reply is still on its way when nobody waits for it any more
  const receiving = new Mailbox<number>(cut, name).receive({ signal: controller.signal });
  await eventually(async () => expect((await reader.counts()).taken).toBe(1));
  controller.abort();
  expect(await receiving).toEqual([]);
  const held = await eventually(async () => {
    const [delivery] = await reader.receive();
    if (delivery === undefined) throw new Error("not back yet");
    return delivery;
  });
  proxy.cut();
  await proxy.heal();
  await cut.send(["PING"], { repeatable: true }); // commands that are sent again go before it
  expect(await reader.counts()).toEqual({ waiting: 0, taken: 1, dead: 0 });
  expect(await held.acknowledge()).toBe(true);
});

test("a room whose reply was lost is made once, with its first message, and left once", async () => {
  await using proxy = await startProxy(server);
  await using cut = await connect(proxy.url);
  const chat = new Chat<string>(cut);
  const id = fresh();
  const [a, b] = [`a-${id}`, `b-${id}`];
  const members = async () => Number(await server.command("ZCARD", `chat:${id}`));
  const losing = async <T>(call: () => Promise<T>, left: number): Promise<T> => {
    proxy.delay(1_500); // the request arrives; the reply is still on its way when the connection ends
    const calling = call();
    await eventually(async () => expect(await members()).toBe(left));
    proxy.cut();
    await proxy.heal();
    return calling;
  };
  const made = { sender: a, recipients: [b], message: "first", id };
  const room = await losing(() => chat.create(made), 2);
  expect((await room.pending(b)).map(({ message }) => message)).toEqual(["first"]);
  await expect(chat.create(made)).rejects.toMatchObject({ code: "ROOM_EXISTS" });
  await losing(() => room.leave(b), 1);
  await losing(() => room.leave(a), 0);
  expect(await server.command("EXISTS", `msgs:${id}`, `seen:${a}`, `seen:${b}`)).toBe(0);
});

test("a receiver returns although the reply to its last command was lost", async () => {
  await using proxy = await startProxy(server);
  await using cut = await connect(proxy.url);
  const channel = `${fresh()}:`;
  const files = new Files(redis, channel);
  const receiving = new Files(cut, channel).receive("r", () => {});
  const content = async function* () {
    yield Buffer.from("x");
  };
  await files.publish(content(), { receivers: ["r"], name: "n" });
  proxy.delay(1_500);
  await files.end();
  await eventually(async () => expect(await server.command("EXISTS", `chat:${channel}`)).toBe(0));
  proxy.cut();
  await proxy.heal();
  expect(await receiving).toEqual({ files: 1, missed: [] });
});
