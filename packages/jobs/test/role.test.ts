import { roleConformance } from "@ropeway/testkit/role-conformance";
import { Queue, QueueEvents, SeedQueue, SeedWorker, Worker } from "../src/index.ts";

roleConformance("Worker", {
  make: (redis) => new Worker(redis, "role", () => "done", { autostart: false, idleMs: 200 }),
  provoke: async (worker, listener, redis) => {
    worker.on("completed", listener);
    await using queue = new Queue(redis, "role");
    await queue.add("a");
  },
});

roleConformance("QueueEvents", {
  make: (redis) => new QueueEvents(redis, "role"),
  provoke: async (events, listener, redis) => {
    events.on("added", listener);
    await using queue = new Queue(redis, "role");
    await queue.add("a");
  },
});

roleConformance("SeedWorker", {
  make: (redis) => new SeedWorker(redis, { queues: "role", callbacks: {} }, { idleMs: 200 }),
  provoke: async (worker, listener, redis) => {
    worker.on("failed", listener);
    await new SeedQueue(redis).push("role", "unknown");
  },
});
