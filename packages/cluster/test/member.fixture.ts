// A process of a cluster under test: a node or a portal, as args[0] says.
//   member.fixture.ts node|portal STORE ID LEASE_MS
// Prints `ready ID PORT`, then what happens: `run TASK EPOCH`, `end TASK EPOCH`, `lost`, `inspected MS`.
import { connect, silentLogger } from "@ropeway/core";
import { Cluster } from "../src/cluster.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import { HealthServer } from "../src/nodes/health-server.ts";
import { openStore } from "../src/open-store.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { syncRunner } from "../src/runners/sync-runner.ts";
import { SecretBox } from "../src/secrets.ts";

const [kind = "", url = "", id = "", lease = ""] = process.argv.slice(2);
const say = (line: string) => process.stdout.write(`${line}\n`);
const leaseMs = Number(lease);
const redis = url.startsWith("redis:") ? await connect(url) : undefined;
const store = await openStore({ url: redis ? "redis" : url, redis, logger: silentLogger });
const secrets = new SecretBox("00".repeat(32));

if (kind === "node") {
  const health = await HealthServer.listen({ host: "127.0.0.1", port: 0 });
  const address = `http://127.0.0.1:${health.port}`;
  const runners = [scriptedRunner(), syncRunner()];
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
