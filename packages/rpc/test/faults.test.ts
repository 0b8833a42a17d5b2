import { connect } from "@ropeway/core";
import { slotOf } from "@ropeway/core/internal";
import {
  eventually,
  otherServer,
  startCluster,
  startProxy,
  startRedis,
  startSentinelTrio,
} from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { type CallContext, createClient, type RpcClient, RpcServer } from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const handlers = {
  echo: ([value]: unknown[]) => value,
  later: async ([value]: unknown[]) => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    return value;
  },
  slow: async ([value]: unknown[]) => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    return value;
  },
  async *count([n]: [number]) {
    for (let i = 1; i <= n; i++) yield i;
  },
};

/** Calls without pause until told to stop; says how many were overdue and how they ended. */
function load(client: RpcClient, timeoutMs: number) {
  let going = true;
  const outcomes: Record<string, number> = {};
  let overdue = 0;
  let wrong = 0;
  let number = 0;
  const caller = async () => {
    while (going) {
      const value = ++number;
      // A timer of the same process: a pause of the machine delays both.
      const timer = setTimeout(() => {
        overdue += 1;
      }, timeoutMs + GRACE_MS);
      try {
        if ((await client.call("demo.later", [value], { timeoutMs })) !== value) wrong += 1;
        outcomes.ok = (outcomes.ok ?? 0) + 1;
      } catch (error) {
        const code = (error as { code: string }).code;
        outcomes[code] = (outcomes[code] ?? 0) + 1;
      }
      clearTimeout(timer);
    }
  };
  const callers = Array.from({ length: 20 }, caller);
  return {
    outcomes,
    stop: async () => {
      going = false;
      await Promise.all(callers);
      return { outcomes, overdue, wrong };
    },
  };
}

const TIMEOUT_MS = 3_000;
const GRACE_MS = 1_000;

test("a Redis restart under load: nobody waits past the deadline, and calls go on after it", async () => {
  await using stage = await Stage.open({ appendonly: true });
  await stage.serve(handlers);
  const client = await stage.client();
  const running = load(client, TIMEOUT_MS);
  await eventually(() => expect(running.outcomes.ok).toBeGreaterThan(100));
  await stage.server.restart();
  const before = running.outcomes.ok ?? 0;
  await eventually(() => expect(running.outcomes.ok).toBeGreaterThan(before + 100), {
    withinMs: 15_000,
  });
  const { overdue, wrong } = await running.stop();
  expect(wrong).toBe(0);
  expect(overdue).toBe(0);
  await stage.clear();
});

test("answers already written when Redis restarts are delivered after it", async () => {
  await using stage = await Stage.open({ appendonly: true });
  await using proxy = await startProxy(stage.server);
  const far = await connect(proxy.url);
  const client = await createClient(far, { ns: "t", timeoutMs: 15_000 });
  const worker = await stage.serve(handlers);
  await client.call("demo.echo", [0]);
  await client.discover();
  const calls = Array.from({ length: 200 }, (_, i) => client.call("demo.slow", [i]));
  await eventually(() => expect(worker.stats().running).toBe(200));
  proxy.refuse();
  proxy.cut(); // the caller is away while its calls are answered
  await eventually(() => expect(worker.stats().running).toBe(0));
  await stage.server.restart();
  await proxy.heal();
  const outcomes = await Promise.allSettled(calls);
  for (const [i, outcome] of outcomes.entries()) {
    expect(outcome).toMatchObject({ status: "fulfilled", value: i });
  }
  await client.close();
  await far.close();
  await stage.clear();
});

test("cut connections lose no answer that was on its way", async () => {
  await using server = await startRedis();
  await using proxy = await startProxy(server);
  const near = await connect(server.url);
  const far = await connect(proxy.url);
  const worker = await new RpcServer(near, { ns: "t" }).add("demo", handlers as never).start();
  const client = await createClient(far, { ns: "t" });
  await client.call("demo.echo", [0]);
  await client.discover();
  for (let round = 0; round < 3; round++) {
    const calls = Array.from({ length: 100 }, (_, i) =>
      client.call("demo.later", [i], { timeoutMs: 3_000 }),
    );
    setTimeout(() => proxy.cut(), 6 + round * 3);
    const outcomes = await Promise.allSettled(calls);
    const lost = outcomes.filter(({ status }) => status === "rejected");
    // A push cut in the middle may never have arrived: those, and only those, may fail.
    for (const { reason } of lost as PromiseRejectedResult[]) {
      expect(["DEADLINE_EXCEEDED", "CONNECTION_LOST"]).toContain(reason.code);
    }
  }
  await eventually(async () => {
    const after = client.call("demo.echo", ["after"], { timeoutMs: 1_000 });
    await expect(after).resolves.toBe("after");
  });
  await client.close();
  await worker.close();
  await far.close();
  await near.close();
}, 40_000);

test("a network that swallows everything: nobody waits past the deadline, and calls go on after it", async () => {
  await using server = await startRedis();
  await using proxy = await startProxy(server);
  const far = await connect(proxy.url, { heartbeatMs: 100, deadAfterMs: 400 });
  const worker = await new RpcServer(far, { ns: "t" }).add("demo", handlers as never).start();
  const client = await createClient(far, { ns: "t" });
  for (const silenceMs of [200, 6_500]) {
    // Shorter than anybody notices; and so long that every connection is given up.
    const running = load(client, 500);
    await eventually(() => expect(running.outcomes.ok).toBeGreaterThan(100));
    proxy.halfOpen();
    await new Promise((resolve) => setTimeout(resolve, silenceMs));
    await proxy.heal();
    const before = running.outcomes.ok ?? 0;
    await eventually(() => expect(running.outcomes.ok).toBeGreaterThan(before + 100), {
      withinMs: 15_000,
    });
    const { overdue, wrong } = await running.stop();
    expect(wrong).toBe(0);
    expect(overdue).toBe(0);
  }
  await client.close();
  await worker.close();
  await far.close();
}, 60_000);

test("a worker that closes in such a network does not wait for ever with its last answers", async () => {
  await using server = await startRedis();
  await using proxy = await startProxy(server);
  const hasty = { heartbeatMs: 100, deadAfterMs: 200, offlineWaitMs: 300, closeWithinMs: 200 };
  const near = await connect(server.url);
  const far = await connect(proxy.url, { ...hasty, connectTimeoutMs: 200 });
  const ends: (() => void)[] = [];
  const wait = () => new Promise<void>((resolve) => ends.push(resolve));
  const worker = await new RpcServer(far, { ns: "t" }).add("demo", { wait }).start();
  const client = await createClient(near, { ns: "t", timeoutMs: 30_000 });
  const calls = Array.from({ length: 20 }, () => client.call("demo.wait"));
  const outcomes = Promise.allSettled(calls);
  await eventually(() => expect(ends).toHaveLength(20));
  const reported: unknown[] = [];
  worker.on("error", (error) => reported.push(error));
  const closing = worker.close();
  expect(worker.state).toBe("closing"); // it takes no more calls, and waits for those that run
  proxy.halfOpen();
  for (const end of ends) end();
  await closing;
  expect(reported).toContainEqual(expect.objectContaining({ code: "NOT_CONNECTED" }));
  await client.close(); // the responses are lost
  await outcomes;
  await far.close();
  await near.close();
}, 30_000);

test("a client and a worker whose Redis is gone close, and leave nothing that keeps a process alive", async () => {
  await using server = await startRedis();
  const redis = await connect(server.url, { offlineWaitMs: 100, closeWithinMs: 100 });
  const worker = await new RpcServer(redis, { ns: "t" }).add("demo", handlers as never).start();
  const client = await createClient(redis, { ns: "t" });
  await client.call("demo.echo", [1]);
  await server.kill9();
  const reported: unknown[] = [];
  client.on("error", (error) => reported.push(error));
  await Promise.all([client.close(), worker.close()]);
  expect(reported).toContainEqual(expect.objectContaining({ code: "NOT_CONNECTED" }));
  await redis.close(); // the file fails if a timer is left
});

test("nested calls work again after the first of them found Redis away", async () => {
  await using server = await startRedis();
  await using proxy = await startProxy(server);
  const near = await connect(server.url);
  const far = await connect(proxy.url, { offlineWaitMs: 50 });
  const ends: (() => void)[] = [];
  const nested: Record<string, unknown>[] = [];
  const outer = async (_params: unknown, context: CallContext) => {
    await new Promise<void>((resolve) => ends.push(resolve));
    const [outcome] = await Promise.allSettled([context.call("demo.echo", ["nested"])]);
    nested.push(outcome as never);
  };
  const worker = new RpcServer(far, { ns: "t" }).add("demo", { ...handlers, outer } as never);
  await worker.start();
  const client = await createClient(near, { ns: "t" });
  const outcomes = Promise.allSettled([client.call("demo.outer")]);
  await eventually(() => expect(ends).toHaveLength(1));
  proxy.refuse();
  proxy.cut();
  ends[0]?.();
  await eventually(() => expect(nested).toMatchObject([{ status: "rejected" }]));
  await proxy.heal();
  await outcomes;
  const again = client.call("demo.outer");
  await eventually(() => expect(ends).toHaveLength(2));
  ends[1]?.();
  await again;
  expect(nested[1]).toMatchObject({ status: "fulfilled", value: "nested" });
  await client.close();
  await worker.close();
  await far.close();
  await near.close();
}, 30_000);

test("a Sentinel failover under load: nobody waits past the deadline, and calls go on after it", async () => {
  await using trio = await startSentinelTrio();
  const redis = await connect(trio.url);
  const worker = await new RpcServer(redis, { ns: "t" }).add("demo", handlers as never).start();
  const client = await createClient(redis, { ns: "t" });
  const running = load(client, TIMEOUT_MS);
  await eventually(() => expect(running.outcomes.ok).toBeGreaterThan(50));
  await trio.failover();
  const before = running.outcomes.ok ?? 0;
  await eventually(() => expect(running.outcomes.ok).toBeGreaterThan(before + 50), {
    withinMs: 15_000,
  });
  const { overdue, wrong } = await running.stop();
  expect(wrong).toBe(0);
  expect(overdue).toBe(0);
  await client.close();
  await worker.close();
  await redis.close();
}, 60_000);

test("on Cluster everything of a tagged namespace works; one without a tag is refused", async () => {
  await using cluster = await startCluster();
  const redis = await connect(cluster.url);
  await expect(createClient(redis, { ns: "t" })).rejects.toMatchObject({
    code: "INVALID_OPTION",
    details: { option: "ns" },
  });
  const ns = "{t}";
  const options = { ns, node: "n1", group: "g" };
  const worker = await new RpcServer(redis, options).add("demo", handlers as never).start();
  const durable = new RpcServer(redis, { ns, atLeastOnce: true }).add("safe", handlers as never);
  await durable.start();
  const client = await createClient(redis, { ns });
  await expect(client.call("demo.echo", [1])).resolves.toBe(1);
  await expect(client.call("safe.echo", [2])).resolves.toBe(2);
  await expect(all(client.stream("demo.count", [300]))).resolves.toHaveLength(300);
  await expect(client.session("g", "c").call("demo.echo", [3])).resolves.toBe(3);
  expect((await client.discover()).map(({ name }) => name)).toEqual(["demo", "safe"]);
  await client.close();
  await worker.close();
  await durable.close();
  await redis.close();
}, 60_000);

describe.each(["redis-8.0", "valkey-8.1"] as const)("on %s", (version) => {
  const { reason } = otherServer(version);

  test.skipIf(reason)(
    `calls, streams, sessions and durable calls work ${reason ?? ""}`,
    async () => {
      await using stage = await Stage.open({ version });
      await stage.serve(handlers as never, { node: "n1", group: "g" });
      const client = await stage.client();
      await expect(client.call("demo.echo", [1])).resolves.toBe(1);
      await expect(all(client.stream("demo.count", [300]))).resolves.toHaveLength(300);
      await expect(client.session("g", "c").call("demo.echo", [3])).resolves.toBe(3);
      await stage.clear();
      await stage.serve(handlers as never, { atLeastOnce: true });
      await expect((await stage.client()).call("demo.echo", [4])).resolves.toBe(4);
      await stage.clear();
    },
  );
});

test("a worker lives on while only some keys of its namespace have moved to another Cluster node", async () => {
  await using cluster = await startCluster();
  await using redis = await connect(cluster.url);
  const ns = "{t}";
  const worker = new RpcServer(redis, { ns, node: "n1", heartbeatMs: 200 });
  let lapsed = 0;
  worker.on("lapsed", () => {
    lapsed += 1;
  });
  await worker.add("demo", handlers as never).start();
  const client = await createClient(redis, { ns, replies: "keys" });
  const slot = slotOf(ns);
  const from = await cluster.nodeOf(slot);
  const others = await Promise.all([1, 2, 3].map((n) => cluster.nodeOf(n * 5_000)));
  const to = others.find((node) => node !== from);
  if (to === undefined) throw new Error("the cluster has one master only");
  const key = `/api/${ns}/works/demo:n1`;
  await cluster.moveSlot(slot, to, {
    beforeKeys: async () => {
      await from.command("MIGRATE", to.host, String(to.port), key, "0", "5000");
      const moved = async () => Number((await client.workers("demo"))[0]?.methods?.echo?.calls);
      const before = await moved();
      await Promise.all([1, 2, 3].map((i) => client.call("demo.echo", [i])));
      // Told by a heartbeat: it takes its keys one by one.
      await eventually(async () => expect(await moved()).toBe(before + 3), { withinMs: 15_000 });
    },
  });
  expect(lapsed).toBe(0);
  await client.close();
  await worker.close();
}, 60_000);
