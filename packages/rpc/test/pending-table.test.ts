import fc from "fast-check";
import { expect, test } from "vitest";
import { CallIds } from "../src/client/call-ids.ts";
import type { Receiver } from "../src/client/pending-call.ts";
import { PendingTable } from "../src/client/pending-table.ts";

/** Somebody who waits under an id and keeps what comes. */
function waiting(receivers: PendingTable, short: boolean) {
  const got: unknown[] = [];
  const receiver = {
    id: receivers.ids.next(short),
    number: 0,
    receive: (message: { result?: unknown }) => void got.push(message.result),
  } as unknown as Receiver;
  receivers.add(receiver);
  return { receiver, got };
}

test("messages reach whoever waits under their id, one by one or packed", () => {
  const receivers = new PendingTable(() => {});
  const people = Array.from({ length: 20 }, (_, i) => waiting(receivers, i % 2 === 0));
  const texts = people.map(({ receiver }, i) => JSON.stringify({ id: receiver.id, result: i }));
  receivers.receiveAll([...texts.slice(0, 5), `[${texts.slice(5).join(",")}]`]);
  expect(people.map(({ got }) => got)).toEqual(people.map((_, i) => [i]));
});

test("nonsense, null, arrays in arrays and ids of other clients reach nobody and stop nobody", () => {
  const told: string[] = [];
  const receivers = new PendingTable((_, text) => told.push(text));
  const { receiver, got } = waiting(receivers, true);
  const ours = JSON.stringify({ id: receiver.id, result: "ours" });
  const others = new CallIds();
  receivers.receiveAll([
    "nonsense",
    "null",
    "[]",
    "42",
    "{}",
    `[[${ours}],null,7,"x"]`,
    JSON.stringify({ id: others.next(true), result: "theirs" }),
    JSON.stringify({ id: others.next(false), result: "theirs" }),
    JSON.stringify({ id: receivers.ids.last, result: "a number" }),
    JSON.stringify({ id: receivers.ids.client, result: "no counter" }),
    JSON.stringify({ id: `${receivers.ids.client}.`, result: "no counter" }),
  ]);
  expect(got).toEqual([]);
  expect(told).toEqual(["nonsense", "null", "null"]);
  receivers.receiveAll([`[null,${ours}]`]);
  expect(got).toEqual(["ours"]);
});

test("whoever throws keeps the others of the same element from nothing", () => {
  const told: unknown[] = [];
  const receivers = new PendingTable((error) => told.push(error));
  const bad = waiting(receivers, true);
  const good = waiting(receivers, true);
  bad.receiver.receive = () => {
    throw new Error("progress was too much");
  };
  const texts = [bad, good].map(({ receiver }) => JSON.stringify({ id: receiver.id, result: 1 }));
  receivers.receiveAll([`[${texts.join(",")}]`]);
  expect(good.got).toEqual([1]);
  expect(told).toHaveLength(1);
});

test("no JSON value makes the reading of an element throw, or reaches somebody by chance", () => {
  const receivers = new PendingTable(() => {});
  const { got } = waiting(receivers, true);
  fc.assert(
    fc.property(fc.json(), (text) => {
      receivers.receiveAll([text, `[${text}]`, `{"id":${text},"result":1}`]);
    }),
    { seed: 7 },
  );
  expect(got).toEqual([]);
});
