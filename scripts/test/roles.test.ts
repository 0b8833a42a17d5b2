// Runs the conformance tests of roles on every role of every library.
import {
  Cluster,
  ClusterNode,
  openRedisStore,
  SecretBox,
  type Store,
  scriptedRunner,
} from "@ropeway/cluster";
import type { Redis, Role } from "@ropeway/core";
import { Queue, QueueEvents, SeedQueue, SeedWorker, Worker } from "@ropeway/jobs";
import {
  AddressGuard,
  Dispatcher,
  HttpDispatcher,
  MergeQueue,
  Scheduler,
  Schedules,
} from "@ropeway/merge";
import { MergeServer } from "@ropeway/portal";
import { RpcClient, RpcServer } from "@ropeway/rpc";
import { SyncTask } from "@ropeway/sync";
import { startRedis } from "@ropeway/testkit";
import { roleConformance } from "@ropeway/testkit/role-conformance";
import { afterAll } from "vitest";

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
  make: (redis) => new SeedWorker(redis, { queues: "roles", callbacks: {} }, { idleMs: 200 }),
  provoke: async (worker, listener, redis) => {
    worker.on("failed", listener);
    await new SeedQueue(redis).push("roles", "unknown");
  },
});

roleConformance("Dispatcher", {
  make: (redis) => new Dispatcher(new MergeQueue(redis), async () => {}),
  provoke: async (role, listener, redis) => {
    role.on("delivered", listener);
    await new MergeQueue(redis).push("k", "1");
  },
});

roleConformance("HttpDispatcher", {
  make: (redis) => new HttpDispatcher(new MergeQueue(redis)),
  provoke: async (role, listener, redis) => {
    role.on("dead", listener);
    await new MergeQueue(redis).push("a key without an endpoint", "1");
  },
});

roleConformance("Scheduler", {
  make: (redis) => new Scheduler(new MergeQueue(redis)),
  provoke: async (role, listener, redis) => {
    role.on("ran", listener);
    await new Schedules(new MergeQueue(redis), new AddressGuard()).set("now", {
      destination: { mergeKey: "k", url: "https://example.com/" },
      body: "1",
      everyMs: 3_600_000,
      immediately: true,
    });
  },
});

roleConformance("MergeServer", {
  make: (redis) => new MergeServer(new MergeQueue(redis), { port: 0 }),
});

let members = 0;

roleConformance("ClusterNode", {
  make: (redis) =>
    onOwnStore(redis, (store) => {
      const [id, runners] = [`node_${++members}`, [scriptedRunner()]];
      return new ClusterNode(store, {
        id,
        address: "",
        runners,
        secrets: new SecretBox(undefined),
      });
    }),
  provoke: async (node, listener, redis) => {
    node.on("run", listener);
    await using store = openRedisStore(redis);
    const { tasks } = new Cluster(store);
    const { task } = await tasks.create({ name: "any", type: "scripted", config: { runMs: 1 } });
    // On this node, because nodes of earlier tests may still hold leases.
    await tasks.move(task.taskId, node.id);
    await tasks.start(task.taskId);
  },
});

roleConformance("Inspector", {
  make: (redis) =>
    onOwnStore(redis, (store) =>
      new Cluster(store).inspector({ id: `portal_${++members}`, address: "", everyMs: 100 }),
    ),
  provoke: async (inspector, listener) => {
    inspector.on("inspected", listener);
  },
});

/** A role that also closes its store, because a store holds connections that the role does not close. */
function onOwnStore<R extends Pick<Role, "close">>(redis: Redis, make: (store: Store) => R): R {
  const store = openRedisStore(redis);
  const role = make(store);
  const close = role.close.bind(role);
  let closing: Promise<void> | undefined;
  role.close = () => {
    closing ??= close().then(() => store.close());
    return closing;
  };
  return role;
}

// A task takes the URLs of two servers and opens its own connections.
const source = await startRedis({ config: ["repl-diskless-sync-delay 0"] });
const target = await startRedis();
afterAll(async () => {
  await source.close();
  await target.close();
});

roleConformance("SyncTask", {
  make: () => new SyncTask({ from: source.url, to: target.url, name: "roles", progressMs: 20 }),
  provoke: async (task, listener) => {
    task.on("progress", listener);
  },
});
