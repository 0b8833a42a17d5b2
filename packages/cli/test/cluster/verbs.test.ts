// Nodes, tasks and accounts as an operator handles them, directly in the store.
import { Cluster, openRedisStore, SecretBox } from "@ropeway/cluster";
import { keys } from "@ropeway/cluster/internal";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, expect, test } from "vitest";
import { speak } from "../spoken.ts";

const { server, redis } = await redisForFile();
const store = openRedisStore(redis);
afterAll(() => store.close());

const ropeway = (...args: string[]) => speak(args, { env: { REDIS_URL: server.url } });
// biome-ignore lint/suspicious/noExplicitAny: results are looked at, not typed
const json = async (...args: string[]): Promise<any> => {
  const { code, stdout, stderr } = await ropeway(...args, "--json");
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
};

test("a node that is offline can be removed, an online or unknown one cannot", async () => {
  const { id: lease } = await store.grant(30_000);
  for (const [nodeid, online] of [
    ["node_old", false],
    ["node_new", true],
  ] as const) {
    const node = { nodetype: "redissyncer", nodeid, online, lastreporttime: 0 };
    const key = keys.node("redissyncer", nodeid);
    await store.put(key, JSON.stringify(node), online ? lease : undefined);
  }
  expect(await json("nodes", "remove", "node_old")).toEqual({ outcome: "removed", id: "node_old" });
  expect((await json("nodes", "list")).items).toMatchObject([{ id: "node_new" }]);
  expect(await json("nodes", "show", "node_new")).toMatchObject({
    ...{ id: "node_new", online: true, draining: false, types: [], lastReportAt: null },
  });
  expect((await ropeway("nodes", "show", "node_new")).stdout).toMatch(/^state +online$/m);
  expect(await ropeway("nodes", "show", "node_old")).toMatchObject({ code: 4 });
  const online = await ropeway("nodes", "remove", "node_new");
  expect(online).toMatchObject({ code: 1, stderr: expect.stringContaining("it is online") });
  expect(await ropeway("nodes", "remove", "node_old")).toMatchObject({ code: 4 });
});

test("the offset, the big keys and the discarded keys of a task are shown", async () => {
  const { id } = await json("task", "create", "--name", "t", "--type", "scripted");
  expect(await json("task", "offset", id)).toMatchObject({ replOffset: "-1", epoch: 0 });
  expect((await ropeway("task", "offset", id)).stdout).toMatch(/^offset {10}-1$/m);
  expect((await ropeway("task", "show", id)).stdout).toMatch(/^created {3}20\d\d-/m);
  expect((await ropeway("task", "bigkeys", id)).stderr).toContain("no keys");
  const { records } = new Cluster(store, { secrets: new SecretBox(undefined) }).tasks;
  const record = { key: "cart:7", command: "HSET", type: "hash", at: 1 };
  await store.txn({ do: [records.keyOperation("bigKeys", id, record)] });
  await store.txn({ do: [records.keyOperation("discarded", id, record)] });
  for (const verb of ["bigkeys", "discarded"]) {
    expect((await json("task", verb, id)).items).toMatchObject([
      { key: "cart:7", command: "HSET", at: "1970-01-01T00:00:00.001Z" },
    ]);
    expect(await ropeway("task", verb, "nosuch")).toMatchObject({ code: 4 });
  }
});

test("past and new events of a task are followed in one form, until it is removed", async () => {
  const { id } = await json("task", "create", "--name", "followed", "--type", "scripted");
  const { records } = new Cluster(store, { secrets: new SecretBox(undefined) }).tasks;
  const event = { at: 1, event: "COMMANDRUNNING", detail: "", nodeId: "node_a", epoch: 7 };
  const lines = ropeway("task", "events", id, "--follow");
  const objects = ropeway("task", "events", id, "--follow", "--json");
  await eventually(async () =>
    expect(String(await server.command("CLIENT", "LIST")).match(/store-watch/g)).toHaveLength(2),
  );
  await store.txn({ do: [records.eventOperation(id, event)] });
  await store.put(keys.offset(id), "{}"); // what is not an event prints nothing
  await json("task", "remove", id);
  const [first, second, ...rest] = (await lines).stdout.trimEnd().split("\n");
  expect(first).toMatch(/^20\S+Z {2}created {9}-$/);
  expect(second).toBe("1970-01-01T00:00:00.001Z  COMMANDRUNNING  node_a");
  expect(rest).toEqual([]);
  const parsed = (await objects).stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(parsed).toMatchObject([
    { event: "created" },
    { ...event, at: "1970-01-01T00:00:00.001Z" },
  ]);
});

test("an alert is shown and acknowledged", async () => {
  const { alerts } = new Cluster(store, { secrets: new SecretBox(undefined) });
  await alerts.raise({
    ...{ kind: "node-offline", cause: "node n1", text: "node n1 is offline" },
    ...{ subject: "n1", group: "" },
  });
  const [{ id }] = (await json("alerts", "list")).items;
  expect(await json("alerts", "show", id)).toMatchObject({
    text: "node n1 is offline",
    subject: "n1",
  });
  await json("alerts", "ack", id);
  expect((await ropeway("alerts", "show", id)).stdout).toMatch(/^acknowledged +20.*\nby +cli:/m);
  expect(await ropeway("alerts", "show", "nosuch")).toMatchObject({ code: 4 });
});

test("an account gets another role, which must exist", async () => {
  await ropeway("user", "add", "ann", "--generate");
  expect(await json("user", "role", "ann", "operator")).toEqual({
    outcome: "changed",
    username: "ann",
    role: "operator",
  });
  expect((await json("user", "list")).items).toMatchObject([{ username: "ann", role: "operator" }]);
  expect(await ropeway("user", "role", "ann", "nosuch")).toMatchObject({ code: 4 });
  expect(await ropeway("user", "role", "bob", "viewer")).toMatchObject({ code: 4 });
});
