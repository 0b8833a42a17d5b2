import { connect, type Redis } from "@ropeway/core";
import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import {
  type DispatcherOptions,
  HttpDispatcher,
  Inspector,
  keyOf,
  MergeQueue,
} from "../src/index.ts";
import { Lanes, type Place } from "../src/lanes.ts";
import { Receiver } from "./receiver.ts";

const ticket = (key: string, reserved = "1") => ({ key, score: "0", reserved });
const ORIGIN = "http://a";

function full(width: number, now = 0): { lanes: Lanes; places: Place[] } {
  const lanes = new Lanes({ width, reserveMs: 1_000 });
  const places = Array.from({ length: width }, (_, i) =>
    lanes.enter(ORIGIN, ticket(`out${i}`), now),
  );
  return { lanes, places: places as Place[] };
}

test("a lane has as many places as it is wide, and the next lane has its own", () => {
  const { lanes, places } = full(2);
  expect(places).toEqual([
    { origin: ORIGIN, since: 0 },
    { origin: ORIGIN, since: 0 },
  ]);
  expect(lanes.enter(ORIGIN, ticket("c"), 0)).toBe("line");
  expect(lanes.enter("http://b", ticket("d"), 0)).toEqual({ origin: "http://b", since: 0 });
});

test("a place that is given back goes to the first in line, in order", () => {
  const { lanes, places } = full(1);
  for (const key of ["a", "b"]) lanes.enter(ORIGIN, ticket(key), 0);
  const first = lanes.leave(places[0] as Place, 10);
  expect(first).toEqual({ ticket: ticket("a"), place: { origin: ORIGIN, since: 10 } });
  const second = lanes.leave(first?.place as Place, 20);
  expect(second?.ticket.key).toBe("b");
  expect(lanes.leave(second?.place as Place, 30)).toBeUndefined();
  expect(lanes.enter(ORIGIN, ticket("c"), 40)).toEqual({ origin: ORIGIN, since: 40 });
});

test("a place can be given back once", () => {
  const { lanes, places } = full(1);
  lanes.enter(ORIGIN, ticket("a"), 0);
  lanes.enter(ORIGIN, ticket("b"), 0);
  expect(lanes.leave(places[0] as Place, 1)?.ticket.key).toBe("a");
  expect(lanes.leave(places[0] as Place, 1)).toBeUndefined();
});

test("a lane that moves keeps a line of what it does within a reservation", () => {
  const { lanes, places } = full(2);
  lanes.enter(ORIGIN, ticket("first"), 0);
  lanes.leave(places[0] as Place, 100); // 100 ms each, two at a time: 20 a second
  lanes.leave(places[1] as Place, 100);
  lanes.enter(ORIGIN, ticket("second"), 100);
  const entered = Array.from({ length: 30 }, (_, i) => lanes.enter(ORIGIN, ticket(`k${i}`), 100));
  expect(entered.filter((each) => each === "line")).toHaveLength(20);
  expect(entered.slice(20)).toEqual(Array(10).fill("later"));
});

test("a lane that stands still takes nobody into its line", () => {
  const { lanes } = full(4);
  expect(lanes.enter(ORIGIN, ticket("a"), 3_900)).toBe("line");
  expect(lanes.enter(ORIGIN, ticket("b"), 4_100)).toBe("later");
});

test("a key that is reserved anew keeps its turn, and has been due as long as it was", () => {
  const { lanes, places } = full(1);
  lanes.enter(ORIGIN, ticket("a"), 0);
  lanes.enter(ORIGIN, ticket("b"), 0);
  expect(lanes.enter(ORIGIN, { key: "a", score: "9", reserved: "2" }, 5_000)).toBe("line");
  expect(lanes.leave(places[0] as Place, 5_000)?.ticket).toEqual({ ...ticket("a", "2") });
});

/** A queue of its own, and at most one dispatcher on it. */
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
    this.#dispatcher = await HttpDispatcher.start(this.#queue, { targets: ["loopback"] }, options);
  }

  async empty(): Promise<void> {
    const empty = async () => expect((await this.inspector.stats()).keys).toBe(0);
    await eventually(empty, { withinMs: 8_000 });
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
  await eventually(() => expect(other.requests).toHaveLength(40));
  expect(receiver.requests).toHaveLength(2);
  expect((await inspector.list({ search: "stuck39" })).entries).toMatchObject([
    { state: "waiting", attempts: 0 },
  ]);
  hangs = false;
  for (const answer of hanging) answer();
  await stage.empty();
  expect(receiver.bodies().flat().sort()).toEqual(other.bodies().flat().sort());
});

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
  // Whoever is not in line would come again after an hour.
  const long = { reserveMs: 3_600_000, leaseMs: 3_600_000, perOrigin: 3 };
  await stage.dispatch(long);
  await inspector.resume();
  await stage.empty();
  expect(receiver.requests).toHaveLength(300);
  expect(most).toBeLessThanOrEqual(3);
});
