/**
 * Makes calls of all kinds while the slot of their namespace moves from one Cluster node to another. Plain
 * calls continue meanwhile. Session calls and at-least-once calls may wait until the slot has moved.
 */
import { connect } from "@ropeway/core";
import { slotOf } from "@ropeway/core/internal";
import { type RedisCluster, type RedisServer, startCluster, startRedis } from "@ropeway/testkit";
import { createClient, type RpcClient } from "../src/index.ts";
import { hire, Load, type LoadReport, pause, TIMEOUT_MS } from "./load.ts";

/** The results of a run. */
export interface MigrationReport extends LoadReport {
  /** Plain calls that got a response while the slot was moving. */
  readonly during: number;
  /** Plain calls that failed at any time. */
  readonly failed: number;
}

const NS = "{t}";

/** Moves the slot `moves` times, and pauses each move for `movingMs`. */
export async function chaosMigration(
  movingMs: number = 3_000,
  { moves = 1, callers = 12 }: { readonly moves?: number; readonly callers?: number } = {},
): Promise<MigrationReport> {
  await using untouched = await startRedis();
  await using record = await connect(untouched.url);
  await using cluster = await startCluster();
  await using redis = await connect(cluster.url);
  await using client = await createClient(redis, { ns: NS, timeoutMs: TIMEOUT_MS });
  client.on("error", () => {}); // errors during a move are expected
  const where = { ns: NS, record: untouched.url };
  const workers = await Promise.all(["n1", "n2"].map((node) => hire(cluster.url, node, where)));
  const plain = new PlainCalls(client);
  await plain.callFor(100);
  const load = new Load(client, record);
  const running = load.start(callers);
  const slot = slotOf(NS);
  const callOn = () => plain.callFor(movingMs / 2);
  for (let i = 0; i < moves; i++) {
    await cluster.moveSlot(slot, await another(cluster, slot), {
      beforeKeys: callOn,
      afterKeys: callOn,
    });
    await pause(500);
  }
  const { answered: during } = plain;
  await plain.callFor(1_000);
  load.stop();
  await running;
  const report = await load.report();
  await Promise.all(workers.map((worker) => worker.close()));
  return { ...report, during, failed: plain.failed };
}

/** A master that does not own the slot. */
async function another(cluster: RedisCluster, slot: number): Promise<RedisServer> {
  const owner = await cluster.nodeOf(slot);
  const others = await Promise.all([1, 2, 3].map((n) => cluster.nodeOf(n * 5_000)));
  const other = others.find((node) => node !== owner);
  if (other === undefined) throw new Error("the cluster has only one master");
  return other;
}

/** Makes plain calls one after the other. */
class PlainCalls {
  readonly #client: RpcClient;
  answered = 0;
  failed = 0;

  constructor(client: RpcClient) {
    this.#client = client;
  }

  async callFor(ms: number): Promise<void> {
    const until = performance.now() + ms;
    for (let i = 0; performance.now() < until; i++) {
      const value = await this.#client.call("plain.echo", [i]).catch(() => undefined);
      if (value === i) this.answered += 1;
      else this.failed += 1;
    }
  }
}
