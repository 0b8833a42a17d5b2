// Every role of every library leads the same life.
import { Queue, QueueEvents, SeedWorker, Worker } from "@ropeway/jobs";
import { RpcClient, RpcServer } from "@ropeway/rpc";
import { roleConformance } from "@ropeway/testkit/role-conformance";

roleConformance("RpcServer", {
  make: (redis) => new RpcServer(redis, { ns: "roles" }).add("demo", { echo: (params) => params }),
});

roleConformance("RpcClient", { make: (redis) => new RpcClient(redis, { ns: "roles" }) });

roleConformance("Worker", {
  make: (redis) => new Worker(redis, "roles", async () => "done", { autostart: false }),
  provoke: async (worker, listener, redis) => {
    worker.on("completed", listener);
    await using queue = new Queue(redis, "roles");
    await queue.add("any", {});
  },
});

roleConformance("QueueEvents", {
  make: (redis) => new QueueEvents(redis, "roles"),
  provoke: async (events, listener, redis) => {
    events.on("event", listener);
    await using queue = new Queue(redis, "roles");
    await queue.add("any", {});
  },
});

roleConformance("SeedWorker", {
  make: (redis) => new SeedWorker(redis, { queues: "roles", callbacks: { any: async () => {} } }),
});
