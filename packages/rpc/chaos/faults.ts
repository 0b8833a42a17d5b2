/** Causes faults of Redis and of workers during all kinds of calls. Load lists the invariants. */
import { connect } from "@ropeway/core";
import { type RedisServer, type Script, startProxy, startRedis } from "@ropeway/testkit";
import { createClient } from "../src/index.ts";
import { hire, Load, type LoadReport, pause, TIMEOUT_MS } from "./load.ts";

const NS = "chaos";

/** One kind of fault, with its duration. */
export type Fault =
  | { readonly kind: "outage"; readonly ms: number }
  | { readonly kind: "stop"; readonly ms: number }
  | { readonly kind: "flush" }
  | { readonly kind: "refuse"; readonly ms: number };

/** Causes the faults one after the other during calls of all kinds. */
export async function chaosFaults(faults: readonly Fault[], callers: number): Promise<LoadReport> {
  await using server = await startRedis({ appendonly: true });
  await using proxy = await startProxy(server);
  await using untouched = await startRedis();
  await using record = await connect(untouched.url);
  await using far = await connect(proxy.url, { heartbeatMs: 200, deadAfterMs: 1_000 });
  await using client = await createClient(far, { ns: NS, timeoutMs: TIMEOUT_MS });
  client.on("error", () => {}); // outages are intended
  const where = { ns: NS, record: untouched.url };
  const workers = await Promise.all(["n1", "n2"].map((node) => hire(proxy.url, node, where)));
  const load = new Load(client, record);
  const running = load.start(callers);
  for (const fault of faults) {
    await pause(1_000);
    await make(fault, { server, proxy, workers });
  }
  await pause(2_000);
  load.stop();
  await running;
  const report = await load.report();
  await Promise.all(workers.map((worker) => worker.close()));
  return report;
}

async function make(
  fault: Fault,
  stage: {
    readonly server: RedisServer;
    readonly proxy: Awaited<ReturnType<typeof startProxy>>;
    readonly workers: readonly Script[];
  },
): Promise<void> {
  const { server, proxy, workers } = stage;
  if (fault.kind === "flush") {
    await server.command("FLUSHALL");
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
