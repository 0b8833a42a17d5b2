/**
 * Makes calls of all kinds at the same time, each with an id under which the workers count its runs. These
 * invariants hold during all faults of Redis and of the workers:
 *
 *   - a call that is neither idempotent nor at-least-once runs at most once
 *   - every caller gets an outcome before its deadline plus a grace period
 *   - at-least-once calls finish
 *   - the epochs of a session never decrease
 *   - a stream that is read to its end yields every item once and in order, also in an at-least-once service
 */
import type { Redis } from "@ropeway/core";
import { type Script, spawnScript } from "@ropeway/testkit";
import type { RpcClient } from "../src/index.ts";

const WORKER = new URL("./faults-worker.ts", import.meta.url);

/** The results of a run. */
export interface LoadReport {
  readonly calls: number;
  readonly ok: number;
  /** At-most-once calls that ran more than once. */
  readonly doubled: number;
  /** Calls that took longer than the timeout plus the grace period. */
  readonly late: number;
  /** At-least-once calls without a result. */
  readonly unfinished: number;
  /** Epochs that were lower than the previous one. */
  readonly backwards: number;
  /** Streams that ended without an error but were incomplete or out of order. */
  readonly broken: number;
}

/** The timeout of calls that are not at-least-once. */
export const TIMEOUT_MS = 3_000;
const GRACE_MS = 2_000;
/** Longer than all outages of a run together, so that a call without an outcome counts as lost. */
const DURABLE_TIMEOUT_MS = 60_000;
const STREAM_ITEMS = 200;

/** Callers of all kinds. */
export class Load {
  readonly #client: RpcClient;
  /** The Redis in which the workers count the runs. It has no faults. */
  readonly #record: Redis;
  readonly #epochs = new Map<string, number>();
  #going = true;
  #next = 0;
  #calls = 0;
  #ok = 0;
  #late = 0;
  #unfinished = 0;
  #backwards = 0;
  #broken = 0;

  constructor(client: RpcClient, record: Redis) {
    this.#client = client;
    this.#record = record;
  }

  async start(callers: number): Promise<void> {
    const kinds = [
      () => this.#plain(),
      (caller: number) => this.#session(`c${caller}`),
      () => this.#durable(),
      () => this.#stream("plain.count"),
      () => this.#stream("safe.count"),
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

  async report(): Promise<LoadReport> {
    const flat = await this.#record.send<string[]>(["HGETALL", "runs"]);
    let doubled = 0;
    for (let i = 0; i + 1 < flat.length; i += 2) {
      if (flat[i]?.startsWith("safe:") === false && Number(flat[i + 1]) > 1) doubled += 1;
    }
    return {
      calls: this.#calls,
      ok: this.#ok,
      doubled,
      late: this.#late,
      unfinished: this.#unfinished,
      backwards: this.#backwards,
      broken: this.#broken,
    };
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
        // The push may have failed, which the caller sees as an error. A call that has run must finish.
        const runs = await this.#record.send<string | null>(["HGET", "runs", id]);
        if (runs !== null) this.#unfinished += 1;
        throw error;
      }
    });
  }

  #stream(method: string): Promise<void> {
    return this.#timed(TIMEOUT_MS + 30_000, async () => {
      let expected = 0;
      for await (const item of this.#client.stream(method, [STREAM_ITEMS])) {
        expected += 1;
        if (item !== expected) this.#broken += 1;
      }
      if (expected !== STREAM_ITEMS) this.#broken += 1;
    });
  }

  async #timed(timeoutMs: number, call: () => Promise<unknown>): Promise<void> {
    this.#calls += 1;
    // A timer of the same process, because a pause of the machine delays both.
    const timer = setTimeout(() => {
      this.#late += 1;
    }, timeoutMs + GRACE_MS);
    try {
      await call();
      this.#ok += 1;
    } catch {
      // An error is an outcome too. The counters check which ones are allowed.
    }
    clearTimeout(timer);
  }
}

/** Starts a worker process for all kinds of calls and waits until it is ready. */
export async function hire(
  url: string,
  node: string,
  where: { readonly ns: string; readonly record: string },
): Promise<Script> {
  const worker = await spawnScript(WORKER, { args: [url, node, where.ns, where.record] });
  await worker.waitForLine(/^ready/, { withinMs: 60_000 });
  return worker;
}

/** Resolves after `ms` milliseconds. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
