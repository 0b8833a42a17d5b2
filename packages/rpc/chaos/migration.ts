/** Calls while the slot of their namespace is on its way from one Cluster node to another. */
import { connect } from "@ropeway/core";
import { slotOf } from "@ropeway/core/internal";
import { startCluster } from "@ropeway/testkit";
import { createClient, RpcServer } from "../src/index.ts";

/** What was seen. */
export interface MigrationReport {
  /** Calls that were answered while the slot was moving. */
  readonly during: number;
  /** Calls that failed at any time. */
  readonly failed: number;
}

const NS = "{t}";

/** Holds the slot in the middle of its move for `movingMs`. */
export async function chaosMigration(movingMs: number = 3_000): Promise<MigrationReport> {
  await using cluster = await startCluster();
  await using redis = await connect(cluster.url);
  const server = new RpcServer(redis, { ns: NS }).add("demo", {
    echo: ([value]: unknown[]) => value,
  });
  await server.start();
  const client = await createClient(redis, { ns: NS });
  await client.call("demo.echo", [0]);
  let during = 0;
  let failed = 0;
  const slot = slotOf(NS);
  const from = await cluster.nodeOf(slot);
  const others = await Promise.all([1, 2, 3].map((n) => cluster.nodeOf(n * 5_000)));
  const to = others.find((node) => node !== from);
  if (to === undefined) throw new Error("the cluster has one master only");
  const callOn = async () => {
    const until = performance.now() + movingMs / 2;
    for (let i = 0; performance.now() < until; i++) {
      const call = client.call("demo.echo", [i], { timeoutMs: 3_000 });
      const right = await call.then((value) => value === i).catch(() => false);
      if (right) during += 1;
      else failed += 1;
    }
  };
  await cluster.moveSlot(slot, to, { beforeKeys: callOn, afterKeys: callOn });
  for (let i = 0; i < 20; i++) {
    const answer = await client.call("demo.echo", [i]).catch(() => undefined);
    if (answer !== i) failed += 1;
  }
  await client.close();
  await server.close();
  return { during, failed };
}
