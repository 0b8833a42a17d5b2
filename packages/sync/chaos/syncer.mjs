// Runs a task from the build: `node syncer.mjs OPTIONS_AS_JSON`. It is plain JavaScript, because a process that is
// killed every second must start quickly.
import { SyncTask } from "@ropeway/sync";

const task = new SyncTask(JSON.parse(process.argv[2] ?? "{}"));
const say = (line) => process.stdout.write(`${line}\n`);
task.on("error", (error) => say(`error ${error.code} ${error.message}`));
task.on("status", (status) => say(`status ${status}`));
process.on("SIGTERM", () => void task.close());
try {
  await task.start();
  await task.finished;
} catch (error) {
  say(`failed ${error.code} ${error.message}`);
  process.exitCode = 1;
}
await task.close();
