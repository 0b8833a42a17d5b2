/** Runs whose runner says too much, and runs that the store does not hear. */
import { type Logger, silentLogger } from "@ropeway/core";
import { deferred } from "@ropeway/core/internal";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { keys } from "../src/keys.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import type { Run, Runner, RunOffset } from "../src/runner.ts";
import { SecretBox } from "../src/secrets.ts";
import type { Store } from "../src/store/store.ts";
import type { TaskProgress } from "../src/tasks/task.ts";
import { clusterForFile } from "./cluster-for-file.fixture.ts";
import { deletes, faultyStore } from "./faulty-store.fixture.ts";

const secrets = new SecretBox("00".repeat(32));

/** Runs tasks of the type "own" with a function of the test. */
function ownRunner(run: (run: Run) => Promise<void>): Runner {
  return { type: "own", validate: (config) => config, run };
}

/** Rejects with an error that has the given fields; "itself" stands for the error. */
function rejectWith(fields: { message?: unknown; errors?: "itself" }): Promise<never> {
  const error = new AggregateError([]);
  if (fields.errors !== undefined) error.errors.push(error);
  return Promise.reject(Object.assign(error, fields.message ? { message: fields.message } : {}));
}

const untilStopped = (run: Run) =>
  new Promise<void>((resolve) => {
    run.signal.addEventListener("abort", () => resolve(), { once: true });
  });

const { stage, store, cluster, becomes } = await clusterForFile({
  secrets,
  runners: [ownRunner(async () => {})],
});

describe("a run", () => {
  let names = 0;
  const create = async (start = true) => {
    const wish = { name: `r${++names}`, type: "own", config: {}, start };
    return (await cluster.tasks.create(wish)).task.taskId;
  };
  const startNode = (on: Store, id: string, run: (run: Run) => Promise<void>) =>
    new ClusterNode(on, {
      ...{ id, address: "", runners: [ownRunner(run)], secrets },
      ...{ leaseMs: 5_000, reportMs: 200, progressMs: 60_000 },
    }).start();

  it("survives abort listeners of its runner that throw or reject, and ends as if they had not", async () => {
    const errors: unknown[] = [];
    const logger: Logger = { ...silentLogger, error: (...said) => void errors.push(said) };
    const options = { address: "", secrets, leaseMs: 5_000, reportMs: 200, logger };
    const runner = ownRunner((run) => {
      run.signal.addEventListener("abort", () => {
        throw new Error("thrown by a listener");
      });
      run.signal.addEventListener("abort", async () => {
        throw new Error("rejected by a listener");
      });
      return untilStopped(run);
    });
    const node = new ClusterNode(store, { ...options, id: "node_throws", runners: [runner] });
    await using _node = await node.start();
    const id = await create();
    await becomes(id, { status: "STARTING" });
    await cluster.tasks.stop(id);
    await becomes(id, { status: "STOP" });
    await eventually(() => expect(errors).toHaveLength(2));
    expect(errors).toMatchObject([
      [{ err: "thrown by a listener", taskId: id }, "an abort listener of a runner failed"],
      [{ err: "rejected by a listener", taskId: id }, "an abort listener of a runner failed"],
    ]);
    expect(node.registered).toBe(true);
  });

  it.each([
    [
      "fails with a message that is too long to be stored",
      () => Promise.reject(new Error(`refused: ${"x".repeat(2_000_000)}`)),
    ],
    [
      "reports progress that is too long to be stored",
      (run: Run) => {
        run.progress({ note: "x".repeat(2_000_000) });
        return Promise.reject(new Error("refused: later"));
      },
    ],
    [
      "reports an offset and keys that are too long to be stored",
      (run: Run) => {
        const long = "x".repeat(2_000_000);
        run.offset({ replId: long, replOffset: "1" });
        run.bigKey({ key: "k", command: long, type: long });
        for (let n = 0; n < 200; n++) run.discarded({ key: long, command: long, type: "" });
        return Promise.reject(new Error("refused: at last"));
      },
    ],
  ])("ends once when it %s", async (_, fail) => {
    let runs = 0;
    await using _node = await startNode(await stage.open(), "node_long", (run) => {
      runs += 1;
      return fail(run);
    });
    const id = await create();
    await becomes(id, { status: "BROKEN", reason: expect.stringMatching(/^refused: /) });
    expect((await cluster.tasks.get(id)).reason.length).toBeLessThan(5_000);
    expect(runs).toBe(1);
    await cluster.tasks.remove(id);
  });

  const notAString = { key: undefined } as unknown as {
    key: string;
    command: string;
    type: string;
  };
  const changing = (then: (inner: Record<string, unknown>) => void) => (run: Run) => {
    const inner: Record<string, unknown> = {};
    run.progress({ inner } as unknown as TaskProgress);
    run.offset({ replId: inner, replOffset: "1" } as unknown as RunOffset);
    then(inner);
    return Promise.resolve();
  };
  it.each<[string, string, (run: Run) => Promise<void>]>([
    ["fails with a message that is no string", "BROKEN", () => rejectWith({ message: { a: 1 } })],
    ["fails with an error that holds itself", "BROKEN", () => rejectWith({ errors: "itself" })],
    ["notes a big key without a name", "BROKEN", async (run) => run.bigKey(notAString)],
    ["notes a discarded key without a name", "BROKEN", async (run) => run.discarded(notAString)],
    ["reports an offset that is none", "BROKEN", async (run) => run.offset(null as never)],
    ["reports a BigInt later", "FINISH", changing((inner) => Object.assign(inner, { x: 1n }))],
    ["reports a circle later", "FINISH", changing((inner) => Object.assign(inner, { inner }))],
    [
      "reports 2 MB later",
      "FINISH",
      changing((inner) => Object.assign(inner, { x: "x".repeat(2_000_000) })),
    ],
  ])("ends when its runner %s", async (_, status, run) => {
    await using node = await startNode(await stage.open(), "node_odd", run);
    const id = await create();
    await becomes(id, { status });
    await eventually(() => expect(node.running).toBe(0));
    await cluster.tasks.remove(id);
  });

  it("resumes from its checkpoint after it has followed its source, and not before", async () => {
    const follows = deferred<undefined>();
    await using _node = await startNode(await stage.open(), "node_follows", async (run) => {
      run.phase("RDBRUNNING");
      await follows.promise;
      run.phase("COMMANDRUNNING");
      await untilStopped(run);
    });
    const id = await create();
    await becomes(id, { status: "RDBRUNNING", afresh: true });
    follows.resolve(undefined);
    await becomes(id, { status: "COMMANDRUNNING", afresh: false });
    await cluster.tasks.stop(id);
    await becomes(id, { status: "STOP" });
  });

  it("has ended before its node, which has lost its lease, is registered again", async () => {
    const nodeId = "node_returns";
    const own = await stage.open();
    await using node = await startNode(own, nodeId, async (run) => {
      await untilStopped(run);
      // Far more calls than registering takes.
      if (run.signal.aborted) for (let n = 0; n < 500; n++) await own.get(keys.task(run.taskId));
    });
    const events: string[] = [];
    for (const name of ["lost", "end", "registered"] as const) {
      node.on(name, () => events.push(name));
    }
    const id = await create();
    await becomes(id, { status: "STARTING" });
    await eventually(() => expect(node.running).toBe(1));
    await store.delete(keys.node("redissyncer", nodeId));
    await eventually(() => expect(events).toContain("registered"));
    expect(events).toEqual(["lost", "end", "registered"]);
    await cluster.tasks.stop(id).catch(() => {});
  });

  it("is BROKEN when its runner fails without saying why", async () => {
    await using _node = await startNode(await stage.open(), "node_mute", () => Promise.reject());
    const id = await create();
    await becomes(id, { status: "BROKEN" });
    await cluster.tasks.remove(id);
  });

  it("has room for its progress and its end beside the largest configuration", async () => {
    await using _node = await startNode(await stage.open(), "node_large", async (run) => {
      run.progress({ note: "ü".repeat(60_000) });
      run.phase("COMMANDRUNNING");
      await untilStopped(run);
    });
    const wish = { name: "large", type: "own", start: true };
    const config = { list: "ü".repeat(249_000) };
    const tooLarge = { list: "ü".repeat(251_000) };
    const refused = { code: "INVALID_ARGUMENT", message: expect.stringContaining("500000 bytes") };
    await expect(cluster.tasks.create({ ...wish, config: tooLarge })).rejects.toMatchObject(
      refused,
    );
    const id = (await cluster.tasks.create({ ...wish, config })).task.taskId;
    await becomes(id, { status: "COMMANDRUNNING" });
    await cluster.tasks.stop(id);
    await becomes(id, { status: "STOP" });
    await expect(cluster.tasks.edit(id, { config: tooLarge })).rejects.toMatchObject(refused);
    await cluster.tasks.remove(id);
  });

  it("stores the newest 1,000 big keys, and none after its owner key is gone", async () => {
    const gate = deferred<void>();
    let aborted = false;
    await using _node = await startNode(await stage.open(), "node_keys", async (run) => {
      run.signal.addEventListener("abort", () => {
        aborted = true;
      });
      await gate.promise;
      run.bigKey({ key: "late", command: "split", type: "hash" });
    });
    const id = await create();
    await becomes(id, { status: "STARTING" });
    const record = (n: number) => {
      const key = `k${String(n % 2 === 0 ? 5_000 - n : n).padStart(4, "0")}`;
      return cluster.tasks.records.keyOperation("bigKeys", id, {
        ...{ key, command: "split", type: "hash", at: n },
      });
    };
    for (let n = 0; n < 1_250; n += 125) {
      await store.txn({ do: Array.from({ length: 125 }, (_, i) => record(n + i)) });
    }
    await cluster.tasks.records.trim(id);
    const { entries } = await store.range(keys.bigKeys(id));
    expect(entries).toHaveLength(1_000);
    const oldest = entries.map(({ value }) => (JSON.parse(value) as { at: number }).at);
    expect(Math.min(...oldest)).toBeGreaterThanOrEqual(250);
    await store.delete(keys.owner(id)); // another may own it by now
    gate.resolve(undefined);
    await becomes(id, { status: "BROKEN" });
    expect(await store.get(keys.bigKey(id, "late"))).toBeUndefined();
    expect(aborted).toBe(true);
    await cluster.tasks.remove(id);
  });

  it("does not ask a store that refuses its phase again and again", async () => {
    let id = "";
    let refused = 0;
    const refusing = faultyStore(await stage.open(), ({ do: operations }) => {
      const phase = operations.some(({ key }) => key === keys.ofStatus("RDBRUNNING", id));
      if (phase) refused += 1;
      return phase ? "lost" : undefined;
    });
    await using _node = await startNode(refusing, "node_refused", async (run) => {
      run.phase("RDBRUNNING");
      await untilStopped(run);
    });
    id = await create(false);
    await cluster.tasks.start(id);
    await eventually(() => expect(refused).toBeGreaterThan(0));
    const turns = 20_000; // a write for each of them would be a busy loop
    for (let n = 0; n < turns; n++) await new Promise((resolve) => setImmediate(resolve));
    expect(refused).toBeLessThan(100);
    await cluster.tasks.stop(id);
    await becomes(id, { status: "STOP" });
    await cluster.tasks.remove(id);
  });

  it.each([
    ["done", { status: "FINISH" }],
    ["failed", { status: "BROKEN", reason: "failed" }],
  ])("is not repeated when it is %s while the store takes no writes", async (how, expected) => {
    let id = "";
    let refused = 0;
    const refusing = faultyStore(await stage.open(), (transaction) => {
      const end = deletes(transaction, keys.owner(id)) && refused < 6;
      if (end) refused += 1;
      return end ? "lost" : undefined;
    });
    let runs = 0;
    await using _node = await startNode(refusing, `node_${how}`, async () => {
      runs += 1;
      if (how === "failed") throw new Error("failed");
    });
    id = await create(false);
    await cluster.tasks.start(id);
    await becomes(id, { ...expected, desired: "stop" });
    expect(refused).toBe(6);
    expect(runs).toBe(1);
    await cluster.tasks.remove(id);
  });

  it("is done also when it is moved before that could be stored", async () => {
    let id = "";
    let moving: Promise<unknown> | undefined;
    const refusing = faultyStore(await stage.open(), (transaction) => {
      if (!deletes(transaction, keys.owner(id)) || moving !== undefined) return undefined;
      moving = cluster.tasks.move(id, "node_other");
      return "lost";
    });
    const runs: string[] = [];
    const note = (nodeId: string) => async () => {
      runs.push(nodeId);
    };
    await using other = await startNode(await stage.open(), "node_other", note("node_other"));
    await other.pause();
    await using _node = await startNode(refusing, "node_moved", note("node_moved"));
    id = await create(false);
    await cluster.tasks.move(id, "node_moved");
    await cluster.tasks.start(id);
    await becomes(id, { status: "FINISH", nodeId: "node_other", desired: "stop" });
    await moving;
    other.resume();
    expect(runs).toEqual(["node_moved"]);
    await cluster.tasks.remove(id);
  });

  it("ends a task that is stopped while the response to its claim is lost", async () => {
    let id = "";
    let stopping: Promise<unknown> | undefined;
    const claims = faultyStore(await stage.open(), ({ do: operations }) => {
      const claim = operations.some(({ op, key }) => op === "put" && key === keys.owner(id));
      if (!claim || stopping !== undefined) return undefined;
      const owned = () =>
        eventually(async () => expect(await store.get(keys.owner(id))).toBeDefined());
      stopping = owned().then(() => cluster.tasks.stop(id));
      return "unheard";
    });
    const held = new Proxy(claims, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (name !== "txn") return value;
        return async (...args: Parameters<Store["txn"]>) => {
          try {
            return await target.txn(...args);
          } finally {
            await stopping; // the node goes on when the task has been stopped
          }
        };
      },
    });
    let runs = 0;
    await using _node = await startNode(held, "node_unheard", async (run) => {
      runs += 1;
      await untilStopped(run);
    });
    id = await create(false);
    await cluster.tasks.start(id);
    await becomes(id, { status: "STOP", desired: "stop" });
    await eventually(async () => expect(await store.get(keys.owner(id))).toBeUndefined());
    expect(runs).toBe(0);
    await cluster.tasks.remove(id);
  });
});
