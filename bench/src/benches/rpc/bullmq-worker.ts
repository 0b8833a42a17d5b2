/** The echo worker of BullMQ. */
import { Worker } from "bullmq";
import { serve } from "../../remote.ts";

serve(async (config: { host: string; port: number; prefix: string }) => {
  const { host, port, prefix } = config;
  const connection = { host, port };
  const options = { connection, prefix, concurrency: 256, removeOnComplete: { count: 10_000 } };
  const worker = new Worker("bench", async (job) => job.data, options);
  await worker.waitUntilReady();
  return { close: () => worker.close() };
});
