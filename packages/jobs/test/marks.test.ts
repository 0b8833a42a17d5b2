/** Counts, tokens and marks are returned once, and affect only their owner. */
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { FlowPlanner } from "../src/flow/flow.ts";
import { Relay } from "../src/flow/relay.ts";
import type { Queue } from "../src/index.ts";
import { QueueStore } from "../src/internal.ts";
import type { ChildReport } from "../src/store/queue-store.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const HOUR = 3_600_000;
const FAILURE = '{"name":"Error","message":"m"}';
const call = { worker: "w", leaseMs: HOUR, want: 0, done: [], undone: [] };

const storeOf = (queue: Queue) => new QueueStore(one.redis, "ropeway:jobs", queue.name);

/** Takes one job. */
async function take(store: QueueStore): Promise<{ id: string; fence: number }> {
  const { jobs, firstFence } = await store.next({ ...call, want: 1 });
  expect(jobs).toHaveLength(2);
  return { id: jobs[0] as string, fence: firstFence + 1 };
}

describe("a child", () => {
  it("that ends a second time, because it was retried, frees its parent only once", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    const options = { keep: { completed: true } };
    const children = [{ name: "a", options }, { name: "b" }];
    await queue.addFlow({ name: "p", options: { id: "p" }, children });
    for (let run = 0; run < 2; run++) {
      const job = await take(store);
      expect(job.id).toBe("p/0");
      await store.next({ ...call, done: [{ ...job, how: "s", json: '"a"' }] });
      expect(await queue.get("p")).toMatchObject({ state: "blocked" });
      if (run > 0) break;
      await queue.update("p/1", { delayMs: HOUR }); // so that the other child comes first again
      await queue.retry("p/0");
      await store.move(10);
    }
    await queue.remove("p/1");
    await store.move(10);
    expect(await queue.get("p")).toMatchObject({ state: "waiting" });
  });

  it("that fails while its parent runs fails it when it begins to wait", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    await queue.add("p", 1, { id: "p" });
    const parent = await take(store);
    const record = ';0;0;{"f":"p","y":"token"}\nc\n';
    const children = [{ id: "p/0", where: "", record }];
    const add = { flow: "token", before: 0, children };
    expect(await store.addChildren(parent, add)).toEqual({ lost: false });
    const child = await take(store);
    const json = '{"name":"Error","message":"m"}';
    await store.next({ ...call, undone: [{ ...child, how: "dead", json }] });
    expect(await queue.get("p")).toMatchObject({ state: "active" });
    await store.next({ ...call, undone: [{ ...parent, how: "children", json: "" }] });
    expect(await queue.get("p")).toMatchObject({
      state: "failed",
      failure: { code: "CHILD_FAILED" },
    });
    await queue.retry("p"); // by an operator who accepts the failure
    await store.move(10);
    const again = await take(store);
    await store.next({ ...call, undone: [{ ...again, how: "children", json: "" }] });
    expect(await queue.get("p")).toMatchObject({ state: "delayed" });
  });

  it.each(["fail", "ignore", "remove"] as const)(
    "that is retried and completes is completed to a parent with the policy %s",
    async (onChildFailure) => {
      const queue = one.queue();
      const store = storeOf(queue);
      const children = [{ name: "a" }, { name: "b", options: { delayMs: HOUR } }];
      await queue.addFlow({ name: "p", options: { id: "p" }, onChildFailure, children });
      const job = await take(store);
      await store.next({ ...call, undone: [{ ...job, how: "dead", json: FAILURE }] });
      const failed = onChildFailure === "remove" ? "removed" : "failed";
      expect(await queue.children("p")).toMatchObject([{ state: failed }, { state: "pending" }]);
      const before = await queue.get("p");
      await queue.retry(job.id);
      await store.move(10);
      await store.next({ ...call, done: [{ ...(await take(store)), how: "s", json: '"good"' }] });
      const good = { state: "completed", result: "good" };
      expect(await queue.children("p")).toMatchObject([good, { state: "pending" }]);
      expect(await queue.get("p")).toEqual(before); // neither unblocked nor counted twice
    },
  );

  it("in another queue that was retried and completed stays so, in whatever order the messages come", async () => {
    const [home, away] = [one.queue(), one.queue()];
    const children = [{ name: "a", queue: away.name }, { name: "b" }];
    await home.addFlow({ name: "p", options: { id: "p" }, onChildFailure: "ignore", children });
    const store = storeOf(away);
    const relay = new Relay(store, (error) => expect.fail(String(error)));
    const job = await take(store);
    await store.next({ ...call, undone: [{ ...job, how: "dead", json: FAILURE }] });
    const { messages } = await store.outbox("0");
    const late = JSON.parse([...messages.values()][0] ?? "") as ChildReport;
    await relay.deliver();
    expect(await home.children("p")).toMatchObject([{ state: "failed" }, { state: "pending" }]);
    await away.retry(job.id);
    await store.move(10);
    await store.next({ ...call, done: [{ ...(await take(store)), how: "s", json: '"good"' }] });
    await relay.deliver();
    await storeOf(home).recordChild(late);
    const good = { state: "completed", result: "good" };
    expect(await home.children("p")).toMatchObject([good, { state: "pending" }]);
    expect(await home.get("p")).toMatchObject({ state: "blocked" });
  });
});

describe("1,000 children", () => {
  it.each([undefined, "elsewhere"])(
    "are all added, to queue %s",
    async (queue) => {
      const home = one.queue();
      const store = storeOf(home);
      const many = Array.from({ length: 1_000 }, () => ({
        name: "c",
        ...(queue ? { queue } : {}),
      }));
      const context = {
        queue: home.name,
        defaults: undefined,
        traceparent: undefined,
        flow: "token",
      };
      const planner = new FlowPlanner(context);
      const size = async () =>
        queue ? await one.redis.send(["HLEN", store.keys.outbox]) : (await home.counts()).waiting;
      await home.add("p", 1, { id: "p" });
      const parent = await take(store);
      const add = { flow: "token", before: 0, children: planner.planChildren(many, "p", 0) };
      expect(await store.addChildren(parent, add)).toEqual({ lost: false });
      expect(await size()).toBe(1_000);
      expect(await store.addChildren(parent, add)).toEqual({ lost: false }); // its reply was lost
      expect(await size()).toBe(1_000);
      expect(await one.redis.send(["HGET", store.keys.children, "ntoken:p"])).toBe("1000");
      const jobs = planner.plan({ name: "root", children: many }, "root");
      await store.add({ producer: "producer", number: 1, whole: true, jobs });
      expect(await size()).toBe(2_000);
    },
    60_000,
  );
});

describe("a job that is retried", () => {
  it("holds its dedupe key again, unless another job has it", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    const first = await queue.add("a", 1, { dedupe: "key" });
    await store.next({ ...call, undone: [{ ...(await take(store)), how: "dead", json: FAILURE }] });
    await first.retry();
    expect(await queue.add("a", 2, { dedupe: "key" })).toMatchObject({
      id: first.id,
      deduplicated: "kept",
    });
    await store.move(10);
    await store.next({ ...call, undone: [{ ...(await take(store)), how: "dead", json: FAILURE }] });
    const second = await queue.add("a", 3, { dedupe: "key" });
    expect(second.deduplicated).toBeUndefined();
    await first.retry();
    await first.remove(); // does not free the key of the other job
    expect(await queue.add("a", 4, { dedupe: "key" })).toMatchObject({ id: second.id });
  });
});

describe("a job that was cancelled before its worker knew", () => {
  it.each(["5", "delay 5", "children", "hold 1", "back"])(
    "ends, though its attempt ended with %s",
    async (how) => {
      const queue = one.queue();
      const store = storeOf(queue);
      await queue.add("a", 1, { attempts: 5 });
      const job = await take(store);
      expect(await queue.cancel(job.id, "enough")).toBe("signalled");
      await store.next({
        ...call,
        undone: [{ ...job, how, json: '{"name":"Error","message":"m"}' }],
      });
      expect(await queue.get(job.id)).toMatchObject({
        state: "failed",
        failure: { code: "JOB_CANCELLED" },
      });
    },
  );
});

describe("an add that is repeated", () => {
  it("is applied unless this very call was", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    const job = (id: string) => [{ id, where: "", record: ";0;0;\na\n1" }];
    await store.add({ producer: "p.0", number: 1, jobs: job("first") });
    // The slot was used before, but this call never arrived.
    const second = { producer: "p.0", number: 2, repeated: true };
    await store.add({ ...second, jobs: job("second") });
    expect(await queue.get("second")).toMatchObject({ state: "waiting" });
    await queue.drain();
    await store.add({ ...second, jobs: job("second") });
    expect(await queue.get("second")).toBeUndefined();
  });
});

describe("a dedupe key", () => {
  it("is not freed by a timer of an earlier holder", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    const { timers } = store.keys;
    const first = await queue.add("a", 1, { dedupe: "lives" });
    const second = await queue.add("a", 1, { dedupe: { key: "long", ttlMs: HOUR } });
    await one.redis.send(["ZADD", timers, "1", "dlives", "1", "dlong"]);
    await store.move(10);
    expect((await queue.add("a", 2, { dedupe: "lives" })).id).toBe(first.id);
    expect((await queue.add("a", 2, { dedupe: "long" })).id).toBe(second.id);
  });
});

describe("a dedupe key with a time to live", () => {
  it("is held as long again by a job that replaces the data", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    const { dedupe, timers } = store.keys;
    const options = { delayMs: HOUR, dedupe: { key: "k", ttlMs: HOUR, mode: "replace" } } as const;
    const { id } = await queue.add("a", 1, options);
    const almostOver = (await store.now()) + 60_000;
    await one.redis.send(["HSET", dedupe, "k", `${almostOver}:${id}`]);
    await one.redis.send(["ZADD", timers, String(almostOver), "dk"]);
    expect(await queue.add("a", 2, options)).toMatchObject({ id, deduplicated: "replaced" });
    const held = await one.redis.send<string>(["HGET", dedupe, "k"]);
    expect(Number.parseInt(held, 10)).toBeGreaterThan(almostOver);
    expect(held).toBe(`${await one.redis.send(["ZSCORE", timers, "dk"])}:${id}`);
  });
});

describe("a group", () => {
  it("is not held back any more once it was released", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    const { capped, groups, usage } = store.keys;
    await queue.setLimits({ groupConcurrency: 1 });
    await queue.addBulk([1, 2].map((data) => ({ name: "a", data, options: { group: "g" } })));
    for (let run = 0; run < 2; run++) {
      const job = await take(store);
      expect((await store.next({ ...call, want: 1 })).jobs).toEqual([]);
      await store.next({ ...call, done: [{ ...job, how: "s", json: "" }] });
      expect(await one.redis.send(["ZSCORE", capped, "g"])).toBeNull();
    }
    expect(await one.redis.send(["EXISTS", capped, groups, usage])).toBe(0);
  });

  it("has its token back when its job is handed back", async () => {
    const queue = one.queue();
    const store = storeOf(queue);
    await queue.setLimits({ groupRate: { max: 20, perMs: HOUR } });
    await queue.add("a", 1, { group: "g" });
    for (let run = 0; run < 3; run++) {
      const job = await take(store);
      await store.next({ ...call, undone: [{ ...job, how: "back", json: "" }] });
    }
    await eventually(async () => expect(await queue.counts()).toMatchObject({ waiting: 1 }));
  });
});
