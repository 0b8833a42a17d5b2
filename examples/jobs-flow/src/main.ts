/** Three jobs in parallel, then the one that waits for them. */
import { connect } from "@ropeway/core";
import { type JobContext, Queue, Worker } from "@ropeway/jobs";

const SALES: Readonly<Record<string, number>> = { north: 120, south: 80, east: 300 };

const redis = await connect(process.env.REDIS_URL ?? "redis://127.0.0.1:6379").catch((error) => {
  console.error(`${error.message}; set REDIS_URL to the redis URL that \`npm start\` prints`);
  process.exit(1);
});
const queue = new Queue(redis, "reports");

const worker = new Worker(
  redis,
  "reports",
  {
    fetch: (job: JobContext<string>) => {
      if (job.data === "south" && job.attempt === 1) throw new Error("south is not ready yet");
      return SALES[job.data];
    },
    report: async (job: JobContext<{ title: string }>) => {
      const parts = await job.children();
      const total = parts.reduce(
        (sum, part) => sum + (part.state === "completed" ? Number(part.result) : 0),
        0,
      );
      return `${job.data.title}: ${total}`;
    },
  },
  { concurrency: 3 },
);
worker.on("failed", (job, error) =>
  console.log(`${job.name} ${job.data}: ${(error as Error).message}`),
);

const report = await queue.addFlow({
  name: "report",
  data: { title: "Sales" },
  options: { awaited: true },
  children: Object.keys(SALES).map((region) => ({
    name: "fetch",
    data: region,
    options: { attempts: 3, backoff: 100 },
  })),
});
console.log(await report.result({ timeoutMs: 10_000 }));

await worker.close();
await queue.close();
await redis.close();
