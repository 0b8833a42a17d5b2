import { ConnectionLostError } from "@ropeway/core";
import { expect, it } from "vitest";
import { type Exchange, QueueStore, type Taken } from "../src/store/queue-store.ts";
import { Source } from "../src/worker/source.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();

/** A store whose first call that ends jobs is applied, but whose reply is lost. */
class LosingStore extends QueueStore {
  #lost = false;

  override async next(exchange: Exchange): Promise<Taken> {
    const taken = await super.next(exchange);
    if (this.#lost || exchange.done.length + exchange.undone.length === 0) return taken;
    this.#lost = true;
    throw new ConnectionLostError("127.0.0.1:1", "cut");
  }
}

it("an outcome whose reply was lost is confirmed when it is sent again, and is no lost lease", async () => {
  const queue = one.queue();
  await queue.addBulk([{ name: "done" }, { name: "undone" }]);
  const store = new LosingStore(one.redis, queue.prefix, queue.name);
  const onError = (error: unknown) => expect.unreachable(String(error));
  const source = new Source({
    store,
    worker: "w",
    leaseMs: 60_000,
    idleMs: 0,
    logLines: 1,
    onError,
  });
  const { taken } = await source.exchange(2);
  const [done, undone] = source.open(taken, performance.now()).attempts;
  if (done === undefined || undone === undefined) throw new Error("nothing was taken");
  const confirmed: string[] = [];
  source.done(done, "1", () => void confirmed.push("done"));
  source.undone(undone, "dead", { json: "{}", onConfirmed: () => void confirmed.push("undone") });
  await expect(source.exchange(0)).rejects.toThrow(ConnectionLostError);
  expect(confirmed).toEqual([]);
  expect(await source.exchange(0)).toMatchObject({ lost: [] });
  expect(confirmed).toEqual(["done", "undone"]);
  expect(source.held.size).toBe(0);
  // An outcome that is refused at its first attempt belongs to a lost lease.
  source.done(done, "1", () => void confirmed.push("again"));
  expect(await source.exchange(0)).toMatchObject({ lost: [done.id] });
  expect(confirmed).toHaveLength(2);
});

it("reports of parents with many children are sent in several calls", async () => {
  const queue = one.queue();
  await queue.addBulk(Array.from({ length: 9 }, () => ({ name: "parent" })));
  const store = new QueueStore(one.redis, queue.prefix, queue.name);
  const onError = (error: unknown) => expect.unreachable(String(error));
  const how = { worker: "w", leaseMs: 60_000, idleMs: 0, logLines: 1 };
  const source = new Source({ store, ...how, onError });
  for (const id of await one.redis.send<string[]>(["HKEYS", store.keys.jobs])) {
    await one.redis.send(["HSET", store.keys.jobs, id, '1;0;0;{"n":2000,"y":"flow"}\nparent\n']);
  }
  const { taken } = await source.exchange(9);
  const { attempts } = source.open(taken, performance.now());
  for (const [i, attempt] of attempts.entries()) {
    if (i < 4) source.done(attempt, "1");
    else source.undone(attempt, "dead", { json: "{}" });
  }
  const left: number[] = [];
  while (source.ended > 0) {
    await source.exchange(0);
    left.push(source.ended);
  }
  expect(left).toEqual([3, 0]); // three of each list: 6,000 children
  expect(await queue.counts()).toMatchObject({ active: 0, failed: 5 });
});

it("reports of both kinds share the calls, and those that read a record count three times", async () => {
  const queue = one.queue();
  await queue.addBulk(Array.from({ length: 1_000 }, () => ({ name: "n" })));
  const calls: string[] = [];
  const store = new QueueStore(one.redis, queue.prefix, queue.name);
  const next = store.next.bind(store);
  store.next = (exchange: Exchange) => {
    calls.push(`${exchange.done.length} + ${exchange.undone.length}`);
    return next(exchange);
  };
  const onError = (error: unknown) => expect.unreachable(String(error));
  const how = { worker: "w", leaseMs: 60_000, idleMs: 0, logLines: 1 };
  const source = new Source({ store, ...how, onError });
  const taken = [await source.exchange(500), await source.exchange(500)];
  const [good, bad] = taken.map((reply) => source.open(reply.taken, performance.now()).attempts);
  for (const attempt of good ?? []) source.done(attempt, "1");
  for (const attempt of bad ?? []) source.undone(attempt, "dead", { json: "{}" });
  calls.length = 0;
  while (source.ended > 0) await source.exchange(0);
  expect(calls).toEqual(["248 + 84", "248 + 84", "4 + 84", "0 + 167", "0 + 81"]);
  expect(await queue.counts()).toMatchObject({
    active: 0,
    totals: { completed: 500, failed: 500 },
  });
});

it("long results are sent in several calls", async () => {
  const queue = one.queue();
  await queue.addBulk(Array.from({ length: 6 }, () => ({ name: "n" })));
  const store = new QueueStore(one.redis, queue.prefix, queue.name);
  const onError = (error: unknown) => expect.unreachable(String(error));
  const source = new Source({
    store,
    worker: "w",
    leaseMs: 60_000,
    idleMs: 0,
    logLines: 1,
    onError,
  });
  const { taken } = await source.exchange(6);
  const result = JSON.stringify("r".repeat(1 << 20));
  for (const attempt of source.open(taken, performance.now()).attempts)
    source.done(attempt, result);
  await source.exchange(0);
  expect(source.ended).toBe(2);
  await source.exchange(0);
  expect(await queue.counts()).toMatchObject({ active: 0, totals: { completed: 6 } });
});
