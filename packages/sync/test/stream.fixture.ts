/** Runs one task until it is told to end or is killed: `node stream.fixture.ts OPTIONS_AS_JSON`. */
import { SyncTask } from "../src/task.ts";

const task = new SyncTask(JSON.parse(process.argv[2] ?? "{}"));
task.on("error", (error) => process.stdout.write(`error ${String(error)}\n`));
task.on("status", (status) => process.stdout.write(`status ${status}\n`));
process.on("SIGTERM", () => void task.close());
await task.start();
process.stdout.write(`started epoch ${task.progress().epoch}\n`);
await task.finished.then(
  (progress) => process.stdout.write(`finished ${JSON.stringify(progress)}\n`),
  (error) => process.stdout.write(`failed ${String(error.code)} ${String(error.message)}\n`),
);
await task.close();
