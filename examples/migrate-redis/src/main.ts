/** Moves a Redis that is in use to another one, with an interruption, and proves that nothing was lost. */
import { connect } from "@ropeway/core";
import { check, SyncTask, verify } from "@ropeway/sync";

const from = process.env.SOURCE_URL ?? "redis://127.0.0.1:6379";
const to = process.env.REDIS_URL ?? "redis://127.0.0.1:6380";

const { ok, findings } = await check({ from, to });
for (const { level, what, message } of findings) console.log(`${level}: ${what}: ${message}`);
if (!ok) process.exit(1);

// A client that is in the middle of its work.
await using client = await connect(from);
for (let i = 0; i < 1_000; i++) await client.send(["SET", `user:${i}`, `name ${i}`]);
let visits = 0;
let moving = true;
const counting = (async () => {
  while (moving) {
    await client.send(["INCR", "visits"]);
    visits += 1;
  }
})();

// The first run ends in the middle. The second one resumes from the checkpoint in the target.
const first = new SyncTask({ from, to, name: "example" });
await first.start();
while (first.status !== "COMMANDRUNNING") await new Promise((resolve) => setTimeout(resolve, 20));
await first.close();
console.log("interrupted");

await using second = new SyncTask({ from, to, name: "example" });
await second.start();
while (visits < 500) await new Promise((resolve) => setTimeout(resolve, 20));
moving = false;
await counting;

const report = await verify({ from, to, name: "example" });
const { partialResyncs, fullResyncs } = second.progress();
console.log(`resumed ${partialResyncs} times, copied anew ${fullResyncs} times`);
console.log(`${report.keys} keys compared, ${report.different} differ`);
process.exitCode = report.different === 0 ? 0 : 1;
