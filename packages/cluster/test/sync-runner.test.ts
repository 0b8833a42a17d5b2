/** Sync tasks as the cluster runs them: real servers, real nodes. */
import { connect } from "@ropeway/core";
import { eventually, startRedis } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import { syncRunner } from "../src/runners/sync-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import { redisStage } from "./stage.fixture.ts";

it("copies, follows, moves to another node and loses or doubles nothing", async () => {
  const stage = await redisStage();
  await using source = await startRedis({ password: "s3cret-source" });
  await using target = await startRedis();
  const secrets = new SecretBox("11".repeat(32));
  const store = await stage.open();
  const cluster = new Cluster(store, { secrets });
  const nodes = await Promise.all(
    ["node_s1", "node_s2"].map(async (id) => {
      const options = { id, address: "", runners: [syncRunner()], secrets, leaseMs: 3_000 };
      return new ClusterNode(await stage.open(), {
        ...options,
        reportMs: 300,
        progressMs: 200,
      }).start();
    }),
  );
  const redis = await connect(source.url);
  const copy = await connect(target.url);
  await redis.send(["SET", "before", "1"]);
  const members = Array.from({ length: 3_000 }, (_, n) => `member-${n}`);
  await redis.send(["SADD", "big one", ...members]);
  const { task } = await cluster.tasks.create({
    name: "copy",
    type: "sync",
    config: { from: source.url, to: target.url, bigBytes: 16_384 },
    start: true,
    immortal: true,
  });
  expect(JSON.stringify(await store.get(`/tasks/taskid/${task.taskId}`))).not.toContain("s3cret");
  await eventually(
    async () => expect((await cluster.tasks.get(task.taskId)).status).toBe("COMMANDRUNNING"),
    { withinMs: 20_000 },
  );
  let stop = false;
  let sent = 0;
  const writing = (async () => {
    for (; !stop; sent++) await redis.send(["INCR", "counter"]);
  })();
  await eventually(async () =>
    expect(Number(await copy.send(["GET", "counter"]))).toBeGreaterThan(50),
  );
  const first = await cluster.tasks.get(task.taskId);
  const other = first.nodeId === "node_s1" ? "node_s2" : "node_s1";
  await cluster.tasks.move(task.taskId, other);
  await eventually(
    async () => {
      const now = await cluster.tasks.get(task.taskId);
      expect(now).toMatchObject({ nodeId: other, status: "COMMANDRUNNING" });
      expect(now.epoch).toBeGreaterThan(first.epoch);
    },
    { withinMs: 20_000 },
  );
  // The second run goes on where the target says the first one ended: no full synchronisation.
  await eventually(async () => {
    const { progress, epoch } = await cluster.tasks.get(task.taskId);
    expect(progress).toMatchObject({ partialResyncs: 1, fullResyncs: 0, epoch });
  });
  const at = sent;
  await eventually(() => expect(sent).toBeGreaterThan(at + 50));
  stop = true;
  await writing;
  await eventually(
    async () =>
      expect(await copy.send(["GET", "counter"])).toBe(await redis.send(["GET", "counter"])),
    { withinMs: 10_000 },
  );
  expect(await copy.send(["GET", "before"])).toBe("1");
  expect(await copy.send(["SCARD", "big one"])).toBe(members.length);
  const info = String(await redis.send(["INFO", "replication"]));
  expect(await cluster.tasks.offset(task.taskId)).toMatchObject({
    replId: /master_replid:(\w+)/.exec(info)?.[1],
    replOffset: expect.stringMatching(/^\d+$/),
    db: 0,
  });
  const bigKeys = await cluster.tasks.records.page("bigKeys", task.taskId, {});
  expect(bigKeys.items).toMatchObject([{ key: "big one", command_type: "set" }]);
  await cluster.tasks.stop(task.taskId);
  await eventually(async () => expect((await cluster.tasks.get(task.taskId)).status).toBe("STOP"), {
    withinMs: 10_000,
  });
  await Promise.all(nodes.map((node) => node.close()));
  await redis.close();
  await copy.close();
  await stage.close();
}, 90_000);

it.each([
  ["from", { from: "redis://u:Hidden1@127.0.0.1:bad", to: "redis://127.0.0.1:1" }],
  ["to", { from: "redis://127.0.0.1:1", to: "redis://u:Hidden1@127.0.0.1:bad" }],
])("names the address that is wrong, %s, without its password", (field, config) => {
  const refused = () => syncRunner().validate(config);
  expect(refused).toThrow(`config.${field} is "redis://u@127.0.0.1:bad"`);
  expect(refused).not.toThrow("Hidden1");
});

it.each(["redis:u:Hidden1@127.0.0.1:1", "redis:\\\\u:Hidden1@127.0.0.1:1", "redis:/u:Hidden1@h"])(
  "refuses an address whose password nobody would recognise: %s",
  (from) => {
    const refused = () => syncRunner().validate({ from, to: "redis://127.0.0.1:1" });
    expect(refused).toThrow('config.from is "***", but must be a URL');
  },
);
