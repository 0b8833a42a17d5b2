/** Three jobs of one queue in parallel, then the job of another queue that waits for them. */
import { connect } from "@ropeway/core";
import { Queue, Worker } from "@ropeway/jobs";

/** The jobs of both queues: what they take and what they return. */
interface Jobs {
  fetch: { data: string; result: number };
  report: { data: { title: string }; result: string };
}

const SALES: Readonly<Record<string, number>> = { north: 120, south: 80, east: 300 };

const redis = await connect(process.env.REDIS_URL);
const queue = new Queue<Jobs>(redis, "reports");

const worker = new Worker<Jobs>(
  redis,
  ["reports", "downloads"],
  {
    fetch: (job) => {
      if (job.data === "south" && job.attempt === 1) throw new Error("south is not ready yet");
      return SALES[job.data] ?? 0;
    },
    report: async (job) => {
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
    queue: "downloads",
    data: region,
    options: { attempts: 3, backoff: 100 },
  })),
});
console.log(await report.result({ timeoutMs: 10_000 }));

await worker.close();
await queue.close();
await redis.close();
