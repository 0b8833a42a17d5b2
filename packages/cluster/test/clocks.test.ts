/** Clocks that are hours apart: nothing is decided by comparing them. */
import { eventually, type Script, spawnScript } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { keys } from "../src/keys.ts";
import { SecretBox } from "../src/secrets.ts";
import { redisStage } from "./stage.fixture.ts";

const MEMBER = new URL("./member.fixture.ts", import.meta.url);
const HOUR_MS = 3_600_000;

it("judges nodes and moves tasks rightly when every clock is hours from the others", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const cluster = new Cluster(store, { secrets: new SecretBox("00".repeat(32)) });
  const spawn = async (kind: "node" | "portal", id: string, hours: number): Promise<Script> => {
    const env = { SKEW_MS: String(hours * HOUR_MS) };
    const script = await spawnScript(MEMBER, { args: [kind, stage.env.STORE, id, "3000"], env });
    await script.waitForLine(/^ready/, { withinMs: 60_000 });
    return script;
  };
  const members = new Map<string, Script>(
    await Promise.all([
      spawn("node", "node_ahead", 5).then((script) => ["node_ahead", script] as const),
      spawn("node", "node_behind", -5).then((script) => ["node_behind", script] as const),
      spawn("portal", "portal_ahead", 9).then((script) => ["portal_ahead", script] as const),
      spawn("portal", "portal_behind", -9).then((script) => ["portal_behind", script] as const),
    ]),
  );
  const wish = { name: "skewed", type: "scripted", config: {}, immortal: true, start: true };
  const { taskId } = (await cluster.tasks.create(wish)).task;
  const runs = async (epoch = 0) => {
    const task = await cluster.tasks.get(taskId);
    expect(task.status).toBe("COMMANDRUNNING");
    expect(task.epoch).toBeGreaterThan(epoch);
    return task;
  };
  await eventually(runs, { withinMs: 30_000 });
  // Several inspections by clocks that see the nodes' reports hours in the future or in the past.
  const seen = new Set<string | undefined>();
  await eventually(
    async () => {
      seen.add((await store.get(keys.lastInspection))?.value);
      expect(seen.size).toBeGreaterThan(4);
    },
    { withinMs: 30_000 },
  );
  const first = await runs();
  expect((await cluster.alerts.list({ all: true })).items).toEqual([]);
  await members.get(first.nodeId)?.kill9();
  await eventually(() => runs(first.epoch), { withinMs: 60_000 });
  const events = await cluster.tasks.records.events(taskId);
  const order = events.map(({ event, epoch }) => `${event} ${epoch === first.epoch ? 1 : 2}`);
  expect(order[0]).toMatch(/^created/);
  expect(order.indexOf("COMMANDRUNNING 1")).toBeLessThan(order.indexOf("COMMANDRUNNING 2"));
  for (const script of members.values()) await script.kill9();
  await stage.close();
}, 180_000);
