/**
 * Faults of Redis and of workers under all kinds of calls at once. Whatever happens:
 *
 *   - a call that is not marked idempotent, and is not at-least-once, runs at most once
 *   - every caller gets an outcome by its deadline, with some grace
 *   - at-least-once calls run to an end
 *   - the epochs of a session only grow
 *   - every item of a stream that is read to its end comes once, in order
 */
import { connect, type Redis } from "@ropeway/core";
import {
  type RedisServer,
  type Script,
  spawnScript,
  startProxy,
  startRedis,
} from "@ropeway/testkit";
import { createClient, type RpcClient } from "../src/index.ts";

const WORKER = new URL("./faults-worker.ts", import.meta.url);

/** One kind of fault, for so long. */
export type Fault =
  | { readonly kind: "outage"; readonly ms: number }
  | { readonly kind: "stop"; readonly ms: number }
  | { readonly kind: "flush" }
  | { readonly kind: "refuse"; readonly ms: number };

/** What was seen. */
export interface FaultReport {
  readonly calls: number;
  readonly ok: number;
  /** Calls that ran more than once although they must not. */
  readonly doubled: number;
  /** Calls whose caller waited for longer than the timeout and the grace. */
  readonly late: number;
  /** At-least-once calls without a result. */
  readonly unfinished: number;
  /** Epochs that were not larger than one before. */
  readonly backwards: number;
  /** Streams that ended well but were not whole. */
  readonly broken: number;
}

const TIMEOUT_MS = 3_000;
const GRACE_MS = 2_000;
const DURABLE_TIMEOUT_MS = 20_000;
const STREAM_ITEMS = 200;

/** Makes the faults one after the other while calls of all kinds go on. */
export async function chaosFaults(faults: readonly Fault[], callers: number): Promise<FaultReport> {
  await using server = await startRedis({ appendonly: true });
  await using proxy = await startProxy(server);
  await using near = await connect(server.url);
  await using far = await connect(proxy.url, { heartbeatMs: 200, deadAfterMs: 1_000 });
  await using client = await createClient(far, { ns: "chaos", timeoutMs: TIMEOUT_MS });
  client.on("error", () => {}); // the outages are ours
  const workers = await Promise.all([hire(proxy.url, "n1"), hire(proxy.url, "n2")]);
  const load = new Load(client, near);
  const running = load.start(callers);
  for (const fault of faults) {
    await pause(1_000);
    await make(fault, { server, proxy, workers, near });
  }
  await pause(2_000);
  load.stop();
  await running;
  const report = await load.report();
  await Promise.all(workers.map((worker) => worker.close()));
  return report;
}

async function hire(url: string, node: string): Promise<Script> {
  const worker = await spawnScript(WORKER, { args: [url, node] });
  await worker.waitForLine(/^ready/, { withinMs: 60_000 });
  return worker;
}

async function make(
  fault: Fault,
  stage: {
    readonly server: RedisServer;
    readonly proxy: Awaited<ReturnType<typeof startProxy>>;
    readonly workers: readonly Script[];
    readonly near: Redis;
  },
): Promise<void> {
  const { server, proxy, workers } = stage;
  if (fault.kind === "flush") {
    // The runs are the record of this test: they survive.
    const runs = await stage.near.send<string[]>(["HGETALL", "runs"]);
    await server.command("FLUSHALL");
    if (runs.length > 0) await stage.near.send(["HSET", "lost-runs", ...runs]);
  } else if (fault.kind === "outage") {
    proxy.refuse();
    proxy.cut();
    await pause(fault.ms);
    await proxy.heal();
  } else if (fault.kind === "stop") {
    workers[0]?.pause();
    await pause(fault.ms);
    workers[0]?.resume();
  } else {
    await server.command("CONFIG", "SET", "min-replicas-to-write", "1");
    await pause(fault.ms);
    await server.command("CONFIG", "SET", "min-replicas-to-write", "0");
  }
}

/** Calls of all kinds, each with a number under which the workers count its runs. */
class Load {
  readonly #client: RpcClient;
  readonly #redis: Redis;
  readonly #epochs = new Map<string, number>();
  #going = true;
  #next = 0;
  #calls = 0;
  #ok = 0;
  #late = 0;
  #unfinished = 0;
  #backwards = 0;
  #broken = 0;

  constructor(client: RpcClient, redis: Redis) {
    this.#client = client;
    this.#redis = redis;
  }

  async start(callers: number): Promise<void> {
    const kinds = [
      () => this.#plain(),
      (caller: number) => this.#session(`c${caller}`),
      () => this.#durable(),
      () => this.#stream(),
    ];
    await Promise.all(
      Array.from({ length: callers }, async (_, i) => {
        while (this.#going) {
          await kinds[i % kinds.length]?.(i);
          await pause(5);
        }
      }),
    );
  }

  stop(): void {
    this.#going = false;
  }

  async report(): Promise<FaultReport> {
    const counted = await Promise.all(
      ["runs", "lost-runs"].map((key) => this.#redis.send<string[]>(["HGETALL", key])),
    );
    const runs = new Map<string, number>();
    for (const flat of counted) {
      for (let i = 0; i + 1 < flat.length; i += 2) {
        const id = flat[i] ?? "";
        runs.set(id, (runs.get(id) ?? 0) + Number(flat[i + 1]));
      }
    }
    const doubled = [...runs].filter(([id, count]) => !id.startsWith("safe:") && count > 1).length;
    const { calls, ok, late, unfinished, backwards, broken } = {
      calls: this.#calls,
      ok: this.#ok,
      late: this.#late,
      unfinished: this.#unfinished,
      backwards: this.#backwards,
      broken: this.#broken,
    };
    return { calls, ok, doubled, late, unfinished, backwards, broken };
  }

  #plain(): Promise<void> {
    return this.#timed(TIMEOUT_MS, () =>
      this.#client.call("plain.work", [`plain:${this.#next++}`]),
    );
  }

  #session(name: string): Promise<void> {
    return this.#timed(TIMEOUT_MS, async () => {
      const session = this.#client.session("g", name);
      const epoch = Number(await session.call("plain.epoch", [`session:${this.#next++}`]));
      const before = this.#epochs.get(name) ?? 0;
      if (epoch < before) this.#backwards += 1;
      this.#epochs.set(name, epoch);
    });
  }

  async #durable(): Promise<void> {
    const id = `safe:${this.#next++}`;
    const timeoutMs = DURABLE_TIMEOUT_MS;
    await this.#timed(timeoutMs, async () => {
      try {
        await this.#client.call("safe.work", [id], { timeoutMs });
      } catch (error) {
        // Its push may not have arrived, which the caller is told; once it has run it has to end.
        const runs = await this.#redis.send<string | null>(["HGET", "runs", id]);
        if (runs !== null) this.#unfinished += 1;
        throw error;
      }
    });
  }

  #stream(): Promise<void> {
    return this.#timed(TIMEOUT_MS + 30_000, async () => {
      let expected = 0;
      for await (const item of this.#client.stream("plain.count", [STREAM_ITEMS])) {
        expected += 1;
        if (item !== expected) this.#broken += 1;
      }
      if (expected !== STREAM_ITEMS) this.#broken += 1;
    });
  }

  async #timed(timeoutMs: number, call: () => Promise<unknown>): Promise<void> {
    this.#calls += 1;
    // A timer of the same process: a pause of the machine delays both.
    const timer = setTimeout(() => {
      this.#late += 1;
    }, timeoutMs + GRACE_MS);
    try {
      await call();
      this.#ok += 1;
    } catch {
      // an outcome, too: which ones are allowed is what the counters say
    }
    clearTimeout(timer);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
