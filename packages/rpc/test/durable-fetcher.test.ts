import { eventually, spawnScript } from "@ropeway/testkit";
import { expect, test } from "vitest";
import type { CallContext } from "../src/index.ts";
import { attempts, dead, JsonRpcKeys, leases } from "../src/internal.ts";
import { inFlight } from "../src/keys.ts";
import { DurableFetcher } from "../src/server/durable-fetcher.ts";
import { Slots } from "../src/server/slots.ts";
import type { DurableStore } from "../src/store/durable-store.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const NODE = new URL("./node.fixture.ts", import.meta.url);
const REQUEST = new JsonRpcKeys("t").request("demo");

const durable = { atLeastOnce: true, heartbeatMs: 300 } as const;

test("an at-least-once service answers like any other and leaves nothing in flight", async () => {
  await stage.serve({ echo: ([value]: unknown[]) => value }, durable);
  const client = await stage.client();
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, i) => client.call("demo.echo", [i])),
  );
  expect(answers).toEqual(Array.from({ length: 300 }, (_, i) => i));
  expect(await stage.server.command("KEYS", "*:inflight:*")).toEqual([]);
});

test("calls in flight at a killed worker are each run once more, elsewhere", async () => {
  await using doomed = await spawnScript(NODE, { args: [stage.server.url, "n1", "atLeastOnce"] });
  await doomed.waitForLine(/^ready/);
  const client = await stage.client({ timeoutMs: 15_000 });
  const calls = Array.from({ length: 40 }, (_, i) => client.call("demo.hang", [i]));
  for (let i = 0; i < 40; i++) await doomed.waitForLine(/^began/);
  await doomed.kill9();
  const runs: number[] = [];
  const hang = ([number]: [number]) => {
    runs.push(number);
    return `again ${number}`;
  };
  await Promise.all([
    stage.serve({ hang }, { ...durable, node: "n2" }),
    stage.serve({ hang }, { ...durable, node: "n3" }),
  ]);
  await expect(Promise.all(calls)).resolves.toEqual(calls.map((_, i) => `again ${i}`));
  expect(runs.sort((a, b) => a - b)).toEqual(calls.map((_, i) => i));
  expect(await stage.server.command("EXISTS", attempts(REQUEST))).toBe(0);
});

test("a worker that was only stopped does not answer what another has taken over", async () => {
  await using sleeper = await spawnScript(NODE, { args: [stage.server.url, "n1", "atLeastOnce"] });
  await sleeper.waitForLine(/^ready/);
  const client = await stage.client({ timeoutMs: 15_000 });
  const call = client.call("demo.work", [1]);
  await sleeper.waitForLine(/^began 1/);
  sleeper.pause(); // before it was told to finish
  sleeper.send("finish");
  await stage.serve({ work: ([number]: [number]) => `n2 ${number}` }, { ...durable, node: "n2" });
  await expect(call).resolves.toBe("n2 1");
  sleeper.resume();
  await sleeper.waitForLine(/^finished 1/); // and found that the call was not its own any more
  await expect(client.call("demo.work", [2])).resolves.toMatch(/2$/);
  expect(await stage.server.command("LLEN", REQUEST)).toBe(0);
});

test("a call that keeps killing its workers is set aside", async () => {
  const client = await stage.client();
  const abort = new AbortController();
  const call = client.call("demo.echo", ["poison"], { signal: abort.signal });
  call.catch(() => {}); // expected below
  const list = `${REQUEST}:inflight:gone`;
  await stage.server.command("ZADD", leases(REQUEST), "1", "gone");
  await eventually(async () => {
    expect(await stage.server.command("LMOVE", REQUEST, list, "RIGHT", "LEFT")).toMatch(/poison/);
  });
  await stage.serve({ echo: ([value]: unknown[]) => value }, { ...durable, maxRuns: 1 });
  await eventually(async () => {
    expect(await stage.server.command("LLEN", dead(REQUEST))).toBe(1);
  });
  const [note] = (await stage.server.command("LRANGE", dead(REQUEST), "0", "-1")) as string[];
  expect(JSON.parse(String(note))).toMatchObject({ reason: "ran too often" });
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "CANCELLED" });
});

test("a closed worker's unfinished calls are begun anew by another", async () => {
  const first = await stage.serve(
    { wait: (_params, { signal }) => new Promise((_, no) => signal.addEventListener("abort", no)) },
    { ...durable, node: "n1", closeWithinMs: 20, heartbeatMs: 60_000 },
  );
  const client = await stage.client({ timeoutMs: 10_000 });
  const call = client.call("demo.wait");
  await eventually(() => expect(first.stats().running).toBe(1));
  await first.close();
  await stage.serve({ wait: () => "from n2" }, { ...durable, node: "n2" });
  await expect(call).resolves.toBe("from n2");
});

test("a call that is being refused because of load is not run when replies were lost meanwhile", async () => {
  const ran: string[] = [];
  const refused: string[] = [];
  const steps: (() => Promise<string | null>)[] = [
    async () => "first",
    () => Promise.reject(new Error("the connection broke")),
    async () => "last",
  ];
  const store = {
    next: () => steps.shift()?.() ?? new Promise((resolve) => setTimeout(resolve, 5, null)),
    take: async (count: number) => (count === 1 ? ["excess"] : []),
    waiting: async () => (refused.length === 0 ? 3 : 0),
    held: async () => refused, // the refusal has not been written yet
    ended: async () => [],
    close: async () => {},
  } as unknown as DurableStore;
  const fetcher = new DurableFetcher({
    redis: stage.redis,
    store,
    list: REQUEST,
    slots: new Slots(10),
    reclaimEveryMs: 1_000,
    now: () => 0,
    isHeld: () => false,
    maxQueueLength: 2,
    onCall: (text) => ran.push(text),
    onExcess: (texts) => refused.push(...texts),
    onReclaimed: () => {},
    onError: () => {},
  });
  fetcher.start();
  await eventually(() => expect(ran).toContain("last"));
  await fetcher.stop();
  expect(refused).toEqual(["excess"]);
  expect(ran).toEqual(["first", "last"]);
});

test("a worker that runs more calls than one reply lists finds those whose reply was lost", async () => {
  const ran = new Set<string>();
  const hang = ([id]: [string], { signal }: CallContext) => {
    ran.add(id);
    return new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  };
  await stage.serve({ hang } as never, { ...durable, concurrency: 1_300, closeWithinMs: 100 });
  const text = (id: string) => JSON.stringify({ id, version: "2", method: "hang", params: [id] });
  const calls = Array.from({ length: 1_100 }, (_, i) => text(`c${i}`));
  await stage.server.command("LPUSH", REQUEST, ...calls);
  await eventually(() => expect(ran.size).toBe(1_100));
  const [list = ""] = (await stage.server.command("KEYS", inFlight(REQUEST, "*"))) as string[];
  await stage.server.command("LPUSH", list, text("lost"));
  const clients = String(await stage.server.command("CLIENT", "LIST")).split("\n");
  const pop = clients.find((line) => /cmd=blmove/.test(line)) ?? "";
  await stage.server.command("CLIENT", "KILL", "ID", /id=(\d+)/.exec(pop)?.[1] ?? "");
  await eventually(() => expect(ran).toContain("lost"));
});
