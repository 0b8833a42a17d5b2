// A process of a cluster under test: a node or a portal, as args[0] says.
//   member.fixture.ts node|portal STORE ID LEASE_MS
// Prints `ready ID PORT`, then what happens: `run TASK EPOCH`, `end TASK EPOCH`, `lost`, `inspected MS`.
// SKEW_MS sets its clock wrong. SIGUSR2 makes a node deaf (`deaf true`), and again lets it hear: while it is deaf its runs never notice
// that they must stop, and write on until the target refuses them (`refused TASK EPOCH`).
import { connect, LeaseLostError, silentLogger } from "@ropeway/core";
import { Cluster } from "../src/cluster.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import { HealthServer } from "../src/nodes/health-server.ts";
import { openStore } from "../src/open-store.ts";
import type { Runner } from "../src/runner.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { syncRunner } from "../src/runners/sync-runner.ts";
import { SecretBox } from "../src/secrets.ts";

const { now } = Date;
Date.now = () => now() + Number(process.env.SKEW_MS ?? 0);
const [kind = "", url = "", id = "", lease = ""] = process.argv.slice(2);
const say = (line: string) => process.stdout.write(`${line}\n`);
const leaseMs = Number(lease);
const redis = url.startsWith("redis:") ? await connect(url) : undefined;
const store = await openStore({ url: redis ? "redis" : url, redis, logger: silentLogger });
const secrets = new SecretBox("00".repeat(32));
let deaf = false;

function deafened(runner: Runner): Runner {
  return {
    ...runner,
    async run(run) {
      const abort = new AbortController();
      run.signal.addEventListener("abort", () => !deaf && abort.abort(run.signal.reason));
      try {
        await runner.run({ ...run, signal: abort.signal });
      } catch (error) {
        if (error instanceof LeaseLostError) say(`refused ${run.taskId} ${run.epoch}`);
        throw error;
      }
    },
  };
}

if (kind === "node") {
  const health = await HealthServer.listen({ host: "127.0.0.1", port: 0 });
  const address = `http://127.0.0.1:${health.port}`;
  const runners = [deafened(scriptedRunner()), deafened(syncRunner())];
  process.on("SIGUSR2", () => {
    deaf = !deaf;
    say(`deaf ${deaf}`);
  });
  const options = { id, address, runners, secrets, leaseMs, reportMs: 500, progressMs: 500 };
  // A node that takes the place of one that was killed waits for the old lease to end.
  for (let tries = 0; ; tries++) {
    const node = new ClusterNode(store, options);
    node.on("run", (taskId, epoch) => say(`run ${taskId} ${epoch}`));
    node.on("end", (taskId, epoch) => say(`end ${taskId} ${epoch}`));
    node.on("lost", () => say("lost"));
    node.on("error", () => {});
    try {
      await node.start();
      health.serve(node);
      say(`ready ${id} ${health.port}`);
      break;
    } catch (error) {
      if ((error as { code?: string }).code !== "NODE_ID_TAKEN" || tries > 200) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
} else {
  const inspector = new Cluster(store, { secrets }).inspector({
    id,
    address: "",
    everyMs: 1_000,
    probeEveryMs: 200,
    probeTimeoutMs: 500,
    leaseMs,
  });
  inspector.on("inspected", (at) => say(`inspected ${at}`));
  inspector.on("error", () => {});
  for (let tries = 0; ; tries++) {
    try {
      await inspector.start();
      say(`ready ${id} 0`);
      break;
    } catch (error) {
      if ((error as { code?: string }).code !== "NODE_ID_TAKEN" || tries > 200) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}
