/** The contenders: ours, BullMQ with both of its clients, bee-queue, and a minimal loop as the ceiling. */
import { createClient } from "@redis/client";
import { connect, defineScript } from "@ropeway/core";
import { Queue, Worker } from "@ropeway/jobs";
import BeeQueue from "bee-queue";
import { Queue as BullQueue, Worker as BullWorker, type ConnectionOptions } from "bullmq";
import type { JobData, OpenSystem, SystemPlace } from "./system.ts";

export const OURS = "ropeway";
export const BULL = "BullMQ";
export const BULL_BEST = "BullMQ on node-redis";
export const BEE = "bee-queue";
export const BARE = "bare scripts";

interface BenchJobs {
  job: { data: JobData };
}

const openOurs: OpenSystem = async ({ url, prefix }) => {
  const redis = await connect(url);
  const queue = new Queue<BenchJobs>(redis, "bench", { prefix });
  return {
    add: (data) => queue.add("job", data),
    addBulk: (list) => queue.addBulk(list.map((data) => ({ name: "job" as const, data }))),
    addDelayed: (list, delayMs) =>
      queue.addBulk(list.map((data) => ({ name: "job" as const, data, options: { delayMs } }))),
    work: async (concurrency, onJob) => {
      const handler = async (job: { data: JobData }) => onJob(job.data);
      const worker = new Worker<BenchJobs>(redis, "bench", handler, { prefix, concurrency });
      await worker.start();
      return worker;
    },
    close: async () => {
      await queue.close();
      await redis.close();
    },
  };
};

function openBull(connectionOf: (place: SystemPlace) => Promise<Connection>): OpenSystem {
  return async (place) => {
    const { connection, end } = await connectionOf(place);
    const options = { connection, prefix: place.prefix };
    const queue = new BullQueue("bench", {
      ...options,
      defaultJobOptions: { removeOnComplete: true },
    });
    await queue.waitUntilReady();
    return {
      add: (data) => queue.add("job", data),
      addBulk: (list) => queue.addBulk(list.map((data) => ({ name: "job", data }))),
      addDelayed: (list, delay) =>
        queue.addBulk(list.map((data) => ({ name: "job", data, opts: { delay } }))),
      work: async (concurrency, onJob) => {
        const handler = async (job: { data: JobData }) => onJob(job.data);
        const worker = new BullWorker("bench", handler, { ...options, concurrency });
        await worker.waitUntilReady();
        return worker;
      },
      close: async () => {
        await queue.close();
        await end();
      },
    };
  };
}

interface Connection {
  readonly connection: ConnectionOptions;
  end(): Promise<unknown>;
}

const defaultClient = async ({ host, port }: SystemPlace): Promise<Connection> => ({
  connection: { host, port },
  end: async () => {},
});

const fastClient = async ({ url }: SystemPlace): Promise<Connection> => {
  // The client's timer per command is disabled for speed (see docs/benchmarks.md).
  const commandOptions = { timeout: undefined } as unknown as { timeout?: number };
  const client = createClient({ url, RESP: 2, commandOptions });
  await client.connect();
  return { connection: client as unknown as ConnectionOptions, end: () => client.close() };
};

const openBee: OpenSystem = async ({ host, port, prefix }) => {
  const settings = { redis: { host, port }, prefix, removeOnSuccess: true };
  const queue = new BeeQueue<JobData>("bench", {
    ...settings,
    isWorker: false,
    activateDelayedJobs: true,
  });
  await queue.ready();
  return {
    add: (data) => queue.createJob(data).save(),
    addBulk: (list) => queue.saveAll(list.map((data) => queue.createJob(data))),
    addDelayed: (list, delayMs) =>
      queue.saveAll(list.map((data) => queue.createJob(data).delayUntil(Date.now() + delayMs))),
    work: async (concurrency, onJob) => {
      const worker = new BeeQueue<JobData>("bench", settings);
      await worker.ready();
      worker.process(concurrency, async (job: { data: JobData }) => onJob(job.data));
      return { close: async () => void (await worker.close()) };
    },
    close: async () => void (await queue.close()),
  };
};

const rawAdd = defineScript(new URL("../../../lua/jobs-add.lua", import.meta.url));
const rawNext = defineScript(new URL("../../../lua/jobs-next.lua", import.meta.url));

/** One script adds jobs, another completes and takes them. Each of two loops takes half the concurrency. */
const openBare: OpenSystem = async ({ url, prefix }) => {
  const redis = await connect(url);
  const keys = ["jobs", "wait", "lease"].map((name) => `{${prefix}}:${name}`);
  const addBulk = (list: readonly JobData[]) =>
    redis.run(
      rawAdd,
      keys,
      list.flatMap((data) => [String(data.n), JSON.stringify(data)]),
    );
  return {
    add: (data) => addBulk([data]),
    addBulk,
    addDelayed: addBulk,
    work: async (concurrency, onJob) => {
      let open = true;
      const loop = async () => {
        let done: string[] = [];
        while (open || done.length > 0) {
          const want = open ? Math.ceil(concurrency / 2) : 0;
          const taken = (await redis.run(rawNext, keys, [want, 30_000, ...done])) as string[];
          done = [];
          for (let i = 0; i < taken.length; i += 2) {
            onJob(JSON.parse(taken[i + 1] as string) as JobData);
            done.push(taken[i] as string);
          }
          if (taken.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        }
      };
      const loops = [loop(), loop()];
      return {
        close: async () => {
          open = false;
          await Promise.all(loops);
        },
      };
    },
    close: () => redis.close(),
  };
};

/** The systems by name, so that a worker process can open the same one. */
export const SYSTEMS: Readonly<Record<string, OpenSystem>> = {
  [OURS]: openOurs,
  [BULL]: openBull(defaultClient),
  [BULL_BEST]: openBull(fastClient),
  [BEE]: openBee,
  [BARE]: openBare,
};
