import { deferred } from "@ropeway/core/internal";
import { eventually, spawnScript } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { RpcServer } from "../src/index.ts";
import { attempts, inFlight, leases } from "../src/keys.ts";
import { DurableStore } from "../src/store/durable-store.ts";
import { JsonRpcDialect } from "../src/wire/jsonrpc-dialect.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();
const REQUEST = "/api/t/request/demo";
const NODE = new URL("./node.fixture.ts", import.meta.url);

test("with default options a call of a killed worker is run elsewhere well within its default timeout", async () => {
  await using doomed = await spawnScript(NODE, {
    args: [stage.server.url, "n1", "atLeastOnce", "default"],
  });
  await doomed.waitForLine(/^ready/);
  const client = await stage.client({ timeoutMs: 60_000 });
  const call = client.call("demo.hang", [7]);
  await doomed.waitForLine(/^began 7/);
  await doomed.kill9();
  // Its lease ends three seconds from now at the latest, and leases are looked at every second.
  const set = leases("/api/t/request/demo");
  const [seconds] = (await stage.server.command("TIME")) as string[];
  const [, until] = (await stage.server.command("ZRANGE", set, "0", "0", "WITHSCORES")) as string[];
  expect(Number(until) - Number(seconds) * 1_000).toBeLessThanOrEqual(4_000);
  await stage.serve({ hang: ([n]: [number]) => `n2 ${n}` }, { atLeastOnce: true });
  await expect(call).resolves.toBe("n2 7");
}, 60_000);

test("services of one worker share its slots", async () => {
  let running = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running -= 1;
  };
  const server = new RpcServer(stage.redis, { ns: "t", atLeastOnce: true, concurrency: 3 });
  for (const name of ["a", "b", "c", "d"]) server.add(name, { work });
  stage.keep(await server.start());
  const client = await stage.client();
  const calls = ["a", "b", "c", "d"].flatMap((name) =>
    Array.from({ length: 25 }, () => client.call(`${name}.work`)),
  );
  await Promise.all(calls);
  expect(most).toBeLessThanOrEqual(3);
});

test("the calls of a living worker are not reclaimed, however long they run", async () => {
  let runs = 0;
  let end = () => {};
  const options = { atLeastOnce: true, heartbeatMs: 1_000 };
  const slow = async () => {
    runs += 1;
    await new Promise<void>((resolve) => {
      end = resolve;
    });
    return "done";
  };
  await stage.serve({ slow }, { ...options, node: "n1" });
  const client = await stage.client();
  const call = client.call("demo.slow");
  await eventually(() => expect(runs).toBe(1));
  const set = leases("/api/t/request/demo");
  const [, first] = (await stage.server.command("ZRANGE", set, "0", "0", "WITHSCORES")) as string[];
  await stage.serve({ slow }, { ...options, node: "n2" });
  const valid = ["ZCOUNT", set, String(Number(first) + 4_000), "+inf"] as const;
  await eventually(async () => expect(await stage.server.command(...valid)).toBe(2), {
    withinMs: 15_000, // until both were renewed past the first lease and the next look for dead workers
  });
  expect(runs).toBe(1);
  end();
  await expect(call).resolves.toBe("done");
});

test("an at-least-once worker sheds the excess of a long queue", async () => {
  const ends: (() => void)[] = [];
  const wait = () => new Promise<void>((resolve) => ends.push(resolve));
  const options = { atLeastOnce: true, concurrency: 1, loadShedding: { maxQueueLength: 2 } };
  const server = await stage.serve({ wait }, options);
  const client = await stage.client({ timeoutMs: 60_000 });
  const codes: string[] = [];
  const calls = Array.from({ length: 10 }, () =>
    client.call("demo.wait").then(
      () => codes.push("ok"),
      (error) => codes.push(error.code),
    ),
  );
  await eventually(() => expect(codes).toEqual(Array.from({ length: 7 }, () => "OVERLOADED")), {
    withinMs: 15_000,
  });
  expect(server.stats().shed).toBe(7);
  await eventually(() => {
    for (const end of ends.splice(0)) end();
    expect(codes).toHaveLength(10);
  });
  await Promise.all(calls);
  expect(codes.filter((code) => code === "ok")).toHaveLength(3);
  expect(await stage.server.command("KEYS", "*:inflight:*")).toEqual([]);
});

test("an at-least-once call whose response key is no list is run once", async () => {
  let runs = 0;
  await stage.serve({ run: () => ++runs, echo: () => "on" }, { atLeastOnce: true });
  await stage.server.command("SET", "/api/t/response/x", "a string");
  const call = { id: "x", version: "2", method: "run", params: [] };
  await stage.server.command("LPUSH", "/api/t/request/demo", JSON.stringify(call));
  await eventually(() => expect(runs).toBe(1));
  await expect((await stage.client()).call("demo.echo")).resolves.toBe("on");
  await eventually(async () => {
    expect(await stage.server.command("KEYS", "*:inflight:*")).toEqual([]);
  });
  expect(runs).toBe(1);
});

test("calls of a dead worker are not lost when they cannot be put back", async () => {
  const request = "/api/t/request/demo";
  await stage.server.command("ZADD", leases(request), "1", "gone");
  await stage.server.command("LPUSH", `${request}:inflight:gone`, "{}");
  await stage.server.command("SET", `${request}:attempts`, "a string");
  const server = await stage.serve({ echo: () => 1 }, { atLeastOnce: true, heartbeatMs: 50 });
  const reported: unknown[] = [];
  server.on("error", (error) => reported.push(error));
  await eventually(() => expect(reported.length).toBeGreaterThan(1));
  expect(await stage.server.command("LLEN", `${request}:inflight:gone`)).toBe(1);
});

test("calls that end while others wait to be recovered are not run again", async () => {
  const runs: Record<string, number> = {};
  const gates = Object.fromEntries(["b", "x1", "x2", "x3"].map((id) => [id, deferred<void>()]));
  await stage.serve(
    {
      work: async ([id]: [string]) => {
        runs[id] = (runs[id] ?? 0) + 1;
        await gates[id]?.promise;
      },
    },
    { atLeastOnce: true, concurrency: 2 },
  );
  const client = await stage.client();
  const call = client.call("demo.work", ["b"]);
  await eventually(() => expect(runs).toEqual({ b: 1 }));
  // Calls that were moved into the worker's list, but the reply that said so was lost with its connection.
  const [list = ""] = (await stage.server.command("KEYS", inFlight(REQUEST, "*"))) as string[];
  const lost = ["x3", "x2", "x1"].map((id) => `{"id":"${id}","method":"work","params":["${id}"]}`);
  await stage.server.command("RPUSH", list, ...lost);
  const clients = String(await stage.server.command("CLIENT", "LIST"));
  const durable = clients.split("\n").filter((line) => /cmd=blmove/.test(line));
  expect(durable).toHaveLength(1);
  await stage.server.command("CLIENT", "KILL", "ID", /id=(\d+)/.exec(durable[0] ?? "")?.[1] ?? "");
  await eventually(() => expect(runs).toEqual({ b: 1, x1: 1 })); // the others wait for a slot
  gates.b?.resolve();
  await call;
  await stage.redis.send(["PING"]); // on the worker's connection: it knows that the call has ended
  await eventually(() => expect(runs).toEqual({ b: 1, x1: 1, x2: 1 }));
  gates.x1?.resolve();
  await eventually(() => expect(runs).toEqual({ b: 1, x1: 1, x2: 1, x3: 1 }));
  gates.x2?.resolve();
  gates.x3?.resolve();
  await eventually(async () => expect(await stage.server.command("EXISTS", list)).toBe(0));
  await client.call("demo.work", ["last"]); // whatever had waited for a slot would have run by now
  expect(runs).toEqual({ b: 1, x1: 1, x2: 1, x3: 1, last: 1 });
});

const store = new DurableStore({
  redis: stage.redis,
  dialect: new JsonRpcDialect("t"),
  list: REQUEST,
  worker: "w",
  leaseMs: 1_000,
  maxRuns: 3,
  resultTtlSeconds: 1,
});

test("the counts of reclaimed calls do not stay for ever", async () => {
  await stage.server.command("LPUSH", inFlight(REQUEST, "gone"), '{"id":"1"}');
  await stage.server.command("ZADD", leases(REQUEST), "1", "gone");
  expect(await store.reclaim("gone")).toEqual({ back: 1, aside: 0 });
  expect(await stage.server.command("TTL", attempts(REQUEST))).toBeGreaterThan(3_600);
});

test("a worker that renewed its lease in the last moment keeps its calls", async () => {
  await stage.server.command("LPUSH", inFlight(REQUEST, "alive"), '{"id":"1"}');
  await stage.server.command("ZADD", leases(REQUEST), Date.now() + 60_000, "alive");
  expect(await store.reclaim("alive")).toEqual({ back: 0, aside: 0 });
  expect(await stage.server.command("LLEN", inFlight(REQUEST, "alive"))).toBe(1);
});

test("a worker that no longer has a call writes no response", async () => {
  const list = "/api/t/response/1";
  const response = { list, text: '{"id":"1","result":1}' };
  expect(await store.settle('{"id":"1"}', response)).toBe(false);
  expect(await stage.server.command("EXISTS", list)).toBe(0);
});

/** Puts the calls of the only worker back, as if it had been stopped for longer than its lease. */
async function reclaimAll(): Promise<void> {
  const set = leases(REQUEST);
  const [worker = ""] = (await stage.server.command("ZRANGE", set, "0", "0")) as string[];
  await eventually(async () => {
    await stage.server.command("ZADD", set, "1", worker);
    expect(await store.reclaim(worker)).toEqual({ back: 1, aside: 0 });
  });
}

test("a call that comes back to a worker which still runs it is not begun a second time there", async () => {
  const gate = deferred<void>();
  let runs = 0;
  await stage.serve(
    {
      async *count() {
        runs += 1;
        yield 1;
        yield 2;
        await gate.promise;
        yield runs;
      },
      work: async () => {
        runs += 1;
        await gate.promise;
        return runs;
      },
    },
    { atLeastOnce: true },
  );
  const client = await stage.client();
  const stream = client.stream("demo.count");
  for (const value of [1, 2]) expect(await stream.next()).toMatchObject({ value });
  await reclaimAll();
  await eventually(async () => {
    // Taken again by the same worker.
    expect(await stage.server.command("KEYS", inFlight(REQUEST, "*"))).toHaveLength(1);
  });
  gate.resolve();
  await expect(all(stream)).resolves.toEqual([1]);
  await eventually(async () => {
    expect(await stage.server.command("KEYS", inFlight(REQUEST, "*"))).toEqual([]);
  });
  expect(runs).toBe(1);
  await expect(client.call("demo.work")).resolves.toBe(2);
});

test("each of two calls with the same text is run", async () => {
  const gate = deferred<void>();
  let runs = 0;
  const work = async () => {
    runs += 1;
    await gate.promise;
  };
  await stage.serve({ work }, { atLeastOnce: true });
  const text = '{"id":"same","version":"2","method":"work","params":[]}';
  await stage.server.command("LPUSH", REQUEST, text, text);
  await eventually(() => expect(runs).toBeGreaterThan(0));
  gate.resolve();
  await eventually(async () => {
    expect(await stage.server.command("EXISTS", "/api/t/response/same")).toBe(1);
  });
  await stage.server.command("LPUSH", REQUEST, text.replace("same", "another")); // ends the wait for calls
  await eventually(() => expect(runs).toBe(3));
  await eventually(async () => {
    expect(await stage.server.command("LLEN", "/api/t/response/same")).toBe(2);
    expect(await stage.server.command("KEYS", inFlight(REQUEST, "*"))).toEqual([]);
  });
});

test("the calls of a dead worker are the next to be run, in their order", async () => {
  await stage.server.command("LPUSH", REQUEST, "waiting", "youngest");
  await stage.server.command("LPUSH", inFlight(REQUEST, "gone"), "first", "second", "third");
  await stage.server.command("ZADD", leases(REQUEST), "1", "gone");
  expect(await store.reclaim("gone")).toEqual({ back: 3, aside: 0 });
  const popped = await stage.server.command("RPOP", REQUEST, "9");
  expect(popped).toEqual(["first", "second", "third", "waiting", "youngest"]);
});
