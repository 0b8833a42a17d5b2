/** What a mailbox does when it is full. */
import { OverloadedError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { Mailbox } from "../src/mailbox/index.ts";
import { mailboxKeys } from "../src/mailbox/keys.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, fresh } = await twoConnections("full");

test("a full box refuses, or drops its oldest; messages that are over make room", async () => {
  const name = fresh();
  const small = new Mailbox<number>(redis, name, { maxMessages: 2 });
  await small.send(1, { ttlMs: 1 });
  await small.send(2);
  await eventually(() => small.send(3));
  await expect(small.send(4)).rejects.toThrow(OverloadedError);
  await new Mailbox<number>(redis, name, { maxMessages: 2, overflow: "drop-oldest" }).send(5);
  const got = await small.receive({ max: 5 });
  expect(got.map(({ message }) => message)).toEqual([3, 5]);
  await expect(small.send(6)).rejects.toThrow(OverloadedError); // those handed out count
  await small.acknowledge(got);
});

test("a box with far too many messages takes a new one and becomes smaller with each", async () => {
  const name = fresh();
  const large = new Mailbox<number>(redis, name);
  await Promise.all(Array.from({ length: 250 }, (_, n) => large.send(n)));
  const small = new Mailbox<number>(redis, name, { maxMessages: 10, overflow: "drop-oldest" });
  const sizes: number[] = [];
  for (let n = 0; n < 4; n++) {
    await small.send(1_000 + n);
    sizes.push((await small.counts()).waiting);
  }
  expect(sizes).toEqual([151, 52, 10, 10]);
  const got = await small.receive({ max: 100 });
  expect(got.map(({ message }) => message).slice(-4)).toEqual([1_000, 1_001, 1_002, 1_003]);
});

test("a dropped message leaves no count of its attempts behind", async () => {
  const name = fresh();
  const { tries } = mailboxKeys("", name);
  const giveBack = async (mailbox: Mailbox<unknown>) => {
    for (const delivery of (await mailbox.receive({ max: 10 })).reverse()) await delivery.release();
  };
  const newest = new Mailbox<unknown>(redis, name, { maxMessages: 2, overflow: "drop-oldest" });
  await server.command("RPUSH", `mailbox:${name}`, '{"other":1}', '{"other":2}');
  await giveBack(newest);
  for (let n = 0; n < 2; n++) await newest.send(n);
  await giveBack(newest);
  expect(await server.command("HLEN", tries)).toBe(2);
  for (let n = 0; n < 2; n++) await newest.send(n);
  expect(await server.command("EXISTS", tries)).toBe(0);

  await newest.clear();
  const short = new Mailbox<unknown>(redis, name, { maxMessages: 2, ttlMs: 50 });
  for (let n = 0; n < 2; n++) await short.send(n);
  await giveBack(short);
  await eventually(() => short.send(2));
  await eventually(() => short.send(3));
  expect(await server.command("EXISTS", tries)).toBe(0);
});

test("a box whose messages are all handed out refuses a new one without dropping those that wait", async () => {
  const name = fresh();
  const large = new Mailbox<number>(redis, name);
  for (let n = 0; n < 3; n++) await large.send(n);
  await large.receive({ max: 2 });
  const small = new Mailbox<number>(redis, name, { maxMessages: 2, overflow: "drop-oldest" });
  await expect(small.send(9)).rejects.toThrow(OverloadedError);
  expect(await small.counts()).toEqual({ waiting: 1, taken: 2, dead: 0 });
});
