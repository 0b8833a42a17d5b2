import { connect, type Redis } from "@ropeway/core";
import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { OriginSlots, type Slot } from "../src/delivery/origin-slots.ts";
import {
  type DispatcherOptions,
  HttpDispatcher,
  Inspector,
  keyOf,
  MergeQueue,
} from "../src/index.ts";
import { Receiver } from "./receiver.ts";

const ticket = (key: string, reserved = "1") => ({ key, score: "0", reserved });
const ORIGIN = "http://a";

function full(width: number, now = 0): { slots: OriginSlots; taken: Slot[] } {
  const slots = new OriginSlots({ perOrigin: width, reserveMs: 1_000 });
  const taken = Array.from({ length: width }, (_, i) =>
    slots.enter(ORIGIN, ticket(`out${i}`), now),
  );
  return { slots, taken: taken as Slot[] };
}

test("an origin has its number of slots, and the next origin has its own", () => {
  const { slots, taken } = full(2);
  expect(taken).toEqual([
    { origin: ORIGIN, since: 0 },
    { origin: ORIGIN, since: 0 },
  ]);
  expect(slots.enter(ORIGIN, ticket("c"), 0)).toBe("queued");
  expect(slots.enter("http://b", ticket("d"), 0)).toEqual({ origin: "http://b", since: 0 });
});

test("a slot that is given back goes to the first queued key, in order", () => {
  const { slots, taken } = full(1);
  for (const key of ["a", "b"]) slots.enter(ORIGIN, ticket(key), 0);
  const first = slots.leave(taken[0] as Slot, 10);
  expect(first).toEqual({ ticket: ticket("a"), slot: { origin: ORIGIN, since: 10 } });
  const second = slots.leave(first?.slot as Slot, 20);
  expect(second?.ticket.key).toBe("b");
  expect(slots.leave(second?.slot as Slot, 30)).toBeUndefined();
  expect(slots.enter(ORIGIN, ticket("c"), 40)).toEqual({ origin: ORIGIN, since: 40 });
});

test("a slot can be given back once", () => {
  const { slots, taken } = full(1);
  slots.enter(ORIGIN, ticket("a"), 0);
  slots.enter(ORIGIN, ticket("b"), 0);
  expect(slots.leave(taken[0] as Slot, 1)?.ticket.key).toBe("a");
  expect(slots.leave(taken[0] as Slot, 1)).toBeUndefined();
});

test("an origin that responds queues what it does within a reservation", () => {
  const { slots, taken } = full(2);
  slots.enter(ORIGIN, ticket("first"), 0);
  slots.leave(taken[0] as Slot, 100); // 100 ms each, two at a time: 20 a second
  slots.leave(taken[1] as Slot, 100);
  slots.enter(ORIGIN, ticket("second"), 100);
  const entered = Array.from({ length: 30 }, (_, i) => slots.enter(ORIGIN, ticket(`k${i}`), 100));
  expect(entered.filter((each) => each === "queued")).toHaveLength(20);
  expect(entered.slice(20)).toEqual(Array(10).fill("later"));
});

test("an origin that hangs queues nothing", () => {
  const { slots } = full(4);
  expect(slots.enter(ORIGIN, ticket("a"), 3_900)).toBe("queued");
  expect(slots.enter(ORIGIN, ticket("b"), 4_100)).toBe("later");
});

test("a key that is reserved anew keeps its turn, and has been due as long as it was", () => {
  const { slots, taken } = full(1);
  slots.enter(ORIGIN, ticket("a"), 0);
  slots.enter(ORIGIN, ticket("b"), 0);
  expect(slots.enter(ORIGIN, { key: "a", score: "9", reserved: "2" }, 5_000)).toBe("queued");
  expect(slots.leave(taken[0] as Slot, 5_000)?.ticket).toEqual({ ...ticket("a", "2") });
});

/** A separate queue with at most one dispatcher. */
class Stage implements AsyncDisposable {
  readonly #server: RedisServer;
  readonly #redis: Redis;
  readonly #queue: MergeQueue;
  readonly inspector: Inspector;
  #dispatcher: HttpDispatcher | undefined;

  private constructor(server: RedisServer, redis: Redis) {
    this.#server = server;
    this.#redis = redis;
    this.#queue = new MergeQueue(redis);
    this.inspector = new Inspector(this.#queue);
  }

  static async open(): Promise<Stage> {
    const server = await startRedis();
    return new Stage(server, await connect(server.url));
  }

  async push(mergeKey: string, receiver: Receiver, body: string): Promise<void> {
    await this.#queue.push(keyOf({ mergeKey, method: "POST", url: receiver.url() }, ""), body);
  }

  async dispatch(options: DispatcherOptions): Promise<void> {
    this.#dispatcher = await new HttpDispatcher(this.#queue, {
      allow: ["loopback"],
      ...options,
    }).start();
  }

  async empty(): Promise<void> {
    const empty = async () => expect((await this.inspector.stats()).keys).toBe(0);
    await eventually(empty, { withinMs: 60_000 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dispatcher?.close();
    await this.#redis.close();
    await this.#server.close();
  }
}

test("a receiver that hangs takes its own places only; the others go on, and its keys wait", async () => {
  await using receiver = await Receiver.start();
  await using other = await Receiver.start();
  await using stage = await Stage.open();
  const { inspector } = stage;
  const hanging: (() => void)[] = [];
  let hangs = true;
  receiver.answer = (_, response) => {
    if (hangs) hanging.push(() => response.end());
    else response.end();
  };
  for (let i = 0; i < 40; i++) await stage.push(`stuck${i}`, receiver, String(i));
  for (let i = 0; i < 40; i++) await stage.push(`fine${i}`, other, String(i));
  await stage.dispatch({ concurrency: 5, perOrigin: 2, reserveMs: 50 });
  await eventually(() => expect(other.requests).toHaveLength(40), { withinMs: 60_000 });
  expect(receiver.requests).toHaveLength(2);
  expect((await inspector.list({ search: "stuck39" })).items).toMatchObject([
    { state: "waiting", attempts: 0 },
  ]);
  hangs = false;
  for (const answer of hanging) answer();
  await stage.empty();
  expect(receiver.bodies().flat().sort()).toEqual(other.bodies().flat().sort());
}, 150_000);

test("the keys of a busy receiver stand in line and follow each other without a pause", async () => {
  await using receiver = await Receiver.start();
  await using stage = await Stage.open();
  const { inspector } = stage;
  let running = 0;
  let most = 0;
  receiver.answer = (_, response) => {
    running += 1;
    most = Math.max(most, running);
    setImmediate(() => {
      running -= 1;
      response.end();
    });
  };
  await inspector.pause();
  for (let i = 0; i < 300; i++) await stage.push(`k${i}`, receiver, String(i));
  // A key that is not queued would come again after an hour.
  const long = { reserveMs: 3_600_000, leaseMs: 3_600_000, perOrigin: 3 };
  await stage.dispatch(long);
  await inspector.resume();
  await stage.empty();
  expect(receiver.requests).toHaveLength(300);
  expect(most).toBeLessThanOrEqual(3);
}, 90_000);
