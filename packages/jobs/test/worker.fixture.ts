/**
 * A worker in a separate process. Arguments: Redis URL, queue, options as JSON. Each job writes "id
 * stalls fence" to the list `ran`. Job names: "note" (nothing else), "block" (keeps the process busy for
 * data ms), "die" (ends the process), "wait" (data ms).
 */
import { connect } from "@ropeway/core";
import { type JobContext, Worker } from "../src/index.ts";

const [url = "", queue = "", options = "{}"] = process.argv.slice(2);
const settings = JSON.parse(options) as { clockOffMs?: number };
const { clockOffMs = 0, ...workerOptions } = settings;
if (clockOffMs !== 0) {
  const now = Date.now;
  Date.now = () => now() + clockOffMs;
}

const redis = await connect(url, { offlineWaitMs: 30_000 });
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Records that a job ran. Redis refuses the record while it is out of memory, which is not the job's fault. */
async function note(job: JobContext): Promise<void> {
  const key = `ran:${queue}`;
  const command = ["RPUSH", key, `${job.id} ${job.stalls} ${job.fence}`];
  while (!job.signal.aborted) {
    try {
      await redis.send(command, { key, repeatable: true });
      return;
    } catch (error) {
      if (!String(error).includes("OOM")) throw error;
      await pause(50);
    }
  }
}

interface Jobs {
  note: { data: unknown };
  block: { data: number };
  die: { data: unknown };
  wait: { data: number };
}

const worker = new Worker<Jobs>(
  redis,
  queue,
  {
    note,
    block: async (job) => {
      await note(job);
      const until = performance.now() + job.data;
      while (performance.now() < until); // nothing else runs in this process
    },
    die: async (job) => {
      await note(job);
      process.kill(process.pid, "SIGKILL");
      await pause(1_000);
    },
    wait: async (job) => {
      await note(job);
      await pause(job.data);
    },
  },
  workerOptions,
);
worker.on("lost", (id) => process.stdout.write(`lost ${id}\n`));
worker.on("completed", (job) => process.stdout.write(`completed ${job.id}\n`));
await worker.start();
process.stdout.write("ready\n");
process.on("SIGTERM", async () => {
  await worker.close();
  await redis.close();
});
