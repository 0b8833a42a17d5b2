/** A client and workers of both kinds: `url`. Each line on the standard input prints the CPU used since. */
import { connect } from "@ropeway/core";
import { createClient, RpcServer } from "../src/index.ts";

const redis = await connect(process.argv[2] ?? "");
const echo = { echo: ([value]: unknown[]) => value };
const plain = new RpcServer(redis, { ns: "t", node: "n1", group: "g" }).add("plain", echo);
const safe = new RpcServer(redis, { ns: "t", node: "n1", atLeastOnce: true }).add("safe", echo);
const client = await createClient(redis, { ns: "t" });
client.on("error", () => {}); // the outage is made on purpose
for (const server of [plain, safe]) server.on("error", () => {});
await Promise.all([plain.start(), safe.start()]);
await Promise.all([client.call("plain.echo", [1]), client.call("safe.echo", [1])]);

let cpu = process.cpuUsage();
let at = performance.now();
process.stdin.on("data", () => {
  const { user, system } = process.cpuUsage(cpu);
  const share = (user + system) / 1_000 / (performance.now() - at);
  cpu = process.cpuUsage();
  at = performance.now();
  process.stdout.write(`share ${share}\n`);
});
process.stdout.write("ready\n");
