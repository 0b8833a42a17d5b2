/** Portals and nodes as processes, on a real etcd: what the guide tells people to type. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, spawnScript, startEtcd, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

const CLI = new URL("../bin/ropeway.mjs", import.meta.url);

test("two portals and two nodes run a task, refuse a second node of the same id, and move it when a node dies", async () => {
  await using etcd = await startEtcd();
  await using redis = await startRedis();
  const home = await mkdtemp(join(tmpdir(), "ropeway-cluster-"));
  const env = {
    ROPEWAY_HOME: home,
    ROPEWAY_STORE: `etcd://127.0.0.1:${etcd.first.port}`,
    REDIS_URL: redis.url,
    ROPEWAY_SECRET_KEY: Buffer.alloc(32, 7).toString("base64"),
    ROPEWAY_ADMIN_PASSWORD: "correct horse",
    ROPEWAY_PORT: "0",
    ROPEWAY_LOG_LEVEL: "silent",
    ROPEWAY_NODE_LEASE_MS: "3000",
  };
  const start = async (args: string[], ready: RegExp) => {
    const script = await spawnScript(CLI, { args, env });
    const line = await script.waitForLine(ready, { withinMs: 60_000 });
    return { script, line: String(line) };
  };
  const say = async (...args: string[]) => {
    const script = await spawnScript(CLI, { args: [...args, "--json"], env });
    const { code } = await script.exited;
    return { code, text: script.log() };
  };
  const portals = [
    await start(["portal"], /^ropeway ready http:\S+/),
    await start(["portal"], /^ropeway ready http:\S+/),
  ];
  const first = await start(["node", "--id", "node_a"], /^ropeway node ready node_a http:/);
  const refused = await say("node", "--id", "node_a");
  expect(refused.code).toBe(1);
  expect(refused.text).toMatch(/NODE_ID_TAKEN.*127\.0\.0\.1:\d+/);
  const create = ["task", "create", "--name", "t", "--type", "scripted", "--immortal", "--start"];
  const created = JSON.parse((await say(...create)).text) as { id: string };
  const [urlA = "", urlB = ""] = portals.map(({ line }) => /http:\S+/.exec(line)?.[0] ?? "");
  const authorization = `Basic ${Buffer.from("admin:correct horse").toString("base64")}`;
  const taskAt = async (url: string) =>
    (await (
      await fetch(`${url}/api/tasks/${created.id}`, { headers: { authorization } })
    ).json()) as { status: string; node: string; epoch: number };
  await eventually(async () => expect((await taskAt(urlA)).status).toBe("COMMANDRUNNING"), {
    withinMs: 20_000,
  });
  const second = await start(["node", "--id", "node_b"], /^ropeway node ready node_b http:/);
  const { epoch } = await taskAt(urlB);
  await portals[0]?.script.kill9();
  await first.script.kill9();
  await eventually(
    async () => {
      const now = await taskAt(urlB);
      expect(now).toMatchObject({ status: "COMMANDRUNNING", node: "node_b" });
      expect(now.epoch).toBeGreaterThan(epoch);
    },
    { withinMs: 60_000 },
  );
  const alerts = JSON.parse((await say("alerts", "list")).text) as { items: { kind: string }[] };
  expect(alerts.items.map(({ kind }) => kind)).toContain("node-offline");
  await second.script.terminate(20_000);
  await portals[1]?.script.terminate(20_000);
  await rm(home, { recursive: true });
}, 240_000);
