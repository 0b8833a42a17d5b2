// Checks the errors for common mistakes in plain JavaScript, where no compiler reports them.
import * as cluster from "@ropeway/cluster";
import { connect, InvalidArgumentError } from "@ropeway/core";
import * as jobs from "@ropeway/jobs";
import * as autocomplete from "@ropeway/kit/autocomplete";
import * as chat from "@ropeway/kit/chat";
import * as files from "@ropeway/kit/files";
import * as lock from "@ropeway/kit/lock";
import * as mailbox from "@ropeway/kit/mailbox";
import * as semaphore from "@ropeway/kit/semaphore";
import * as merge from "@ropeway/merge";
import * as portal from "@ropeway/portal";
import * as rpc from "@ropeway/rpc";
import * as sync from "@ropeway/sync";
import { startRedis } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";

type Make = (...args: unknown[]) => unknown;
const made = (type: unknown): Make =>
  ((...args: never[]) => Reflect.construct(type as new () => object, args)) as Make;

/** Every function and class whose first argument is a connection, with its other arguments. */
const onRedis: Readonly<Record<string, readonly [Make, ...rest: unknown[]]>> = {
  Queue: [made(jobs.Queue), "email"],
  "Queue.list": [jobs.Queue.list as Make],
  Worker: [made(jobs.Worker), "email", async () => {}],
  QueueEvents: [made(jobs.QueueEvents), "email"],
  SeedQueue: [made(jobs.SeedQueue)],
  SeedWorker: [made(jobs.SeedWorker), { queues: "q", callbacks: {} }],
  RpcServer: [made(rpc.RpcServer)],
  RpcClient: [made(rpc.RpcClient)],
  createClient: [rpc.createClient as Make],
  serve: [rpc.serve as Make, "users", {}],
  listNamespaces: [rpc.listNamespaces as Make],
  MergeQueue: [made(merge.MergeQueue)],
  Lock: [made(lock.Lock), "a"],
  ReadWriteLock: [made(lock.ReadWriteLock), "a"],
  MultiLock: [made(lock.MultiLock), ["a"]],
  LockInspector: [made(lock.LockInspector)],
  Semaphore: [made(semaphore.Semaphore), "a", { permits: 1 }],
  SemaphoreInspector: [made(semaphore.SemaphoreInspector)],
  Mailbox: [made(mailbox.Mailbox), "a"],
  Chat: [made(chat.Chat)],
  Room: [made(chat.Room), "1"],
  Files: [made(files.Files), "a"],
  RecentContacts: [made(autocomplete.RecentContacts), "ann"],
  GroupMembers: [made(autocomplete.GroupMembers), "team"],
  openRedisStore: [cluster.openRedisStore as Make],
  createPortal: [portal.createPortal as Make],
  jobsPart: [portal.jobsPart as Make],
  kitPart: [portal.kitPart as Make],
  rpcPart: [portal.rpcPart as Make],
};

const onQueue: Readonly<Record<string, readonly [Make, ...rest: unknown[]]>> = {
  Dispatcher: [made(merge.Dispatcher), async () => {}],
  HttpDispatcher: [made(merge.HttpDispatcher)],
  Inspector: [made(merge.Inspector)],
  DeadLetters: [made(merge.DeadLetters)],
  Endpoints: [made(merge.Endpoints)],
  Attempts: [made(merge.Attempts)],
  Scheduler: [made(merge.Scheduler)],
};

async function refusal(work: () => unknown): Promise<InvalidArgumentError> {
  const error = await (async () => work())().then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(InvalidArgumentError);
  expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
  return error as InvalidArgumentError;
}

describe.each(Object.entries(onRedis))("%s", (_name, [make, ...rest]) => {
  test("says what to pass in place of a name, a URL, nothing, or another client", async () => {
    const how = "but must be a connection: const redis = await connect(process.env.REDIS_URL).";
    class Client {
      password = "hunter2";
    }
    for (const [wrong, shown] of [
      ["email", '"email"'],
      ["redis://:hunter2@127.0.0.1:6379", '"redis://:***@127.0.0.1:6379"'],
      [undefined, "undefined"],
      [null, "null"],
      [{ host: "127.0.0.1" }, "an object"],
      [new Client(), "an instance of Client"],
    ] as const) {
      const error = await refusal(() => make(wrong, ...rest));
      expect(error.message).toBe(`redis is ${shown}, ${how}`);
      expect(JSON.stringify(error.details)).not.toContain("hunter2");
    }
  });

  test("says that an await is missing", async () => {
    const connecting = connect("redis://127.0.0.1:1", { connectWaitMs: 0 });
    connecting.catch(() => {});
    const error = await refusal(() => make(connecting, ...rest));
    expect(error.message).toMatch(/^redis is an instance of Promise, .* Add the missing await\.$/);
  });
});

test.each(Object.entries(onQueue))("%s says that it needs a merge queue", async (_name, entry) => {
  const [make, ...rest] = entry;
  const error = await refusal(() => make("orders", ...rest));
  expect(error.message).toMatch(/^queue is "orders", but must be a merge queue: .*MergeQueue/);
});

test.each([
  ["Cluster", made(cluster.Cluster)],
  ["ClusterNode", made(cluster.ClusterNode)],
])("%s says that it needs a store", async (_name, make) => {
  const error = await refusal(() => make("redis://127.0.0.1:6379", { id: "node_a" }));
  expect(error.message).toMatch(/^store is "redis.*, but must be a store: openRedisStore\(redis\)/);
});

test("options that are not an object are refused, and the error lists the options", async () => {
  const task = await refusal(() => made(sync.SyncTask)("old"));
  expect(task.message).toMatch(/^options is "old", but must be an object with from and to/);
  const options = await refusal(() => made(sync.RdbReader)("dump.rdb"));
  expect(options.message).toMatch(/^options is "dump.rdb", but must be an object with any of /);
});

test.each([5, true, () => "redis://127.0.0.1"])(
  "connect(%s) says that it needs a URL",
  async (url) => {
    const connecting = (connect as Make)(url) as Promise<unknown>;
    await expect(connecting).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining("but must be a URL such as redis://"),
    });
  },
);

test("connect() with an object of options says that it needs an address or a URL", async () => {
  await expect((connect as Make)({ url: "redis://127.0.0.1" })).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining("pass a URL: connect(process.env.REDIS_URL)"),
  });
});

test.each([undefined, null, "./handlers.js"])("handlers that are %s are refused", async (wrong) => {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  const worker = await refusal(() => made(jobs.Worker)(redis, "email", wrong));
  expect(worker.message).toMatch(
    /^handlers is .*, but must be a function, an object with a function/,
  );
  const service = await refusal(() => (rpc.serve as Make)(redis, "users", wrong));
  expect(service.message).toMatch(/^handlers is .*, but must be an object with a function/);
});
