/**
 * Makes durable calls while their workers are killed at random. Every accepted call must get one response,
 * with its own result. A call may run more than once only if a worker was killed while it ran the call.
 */
import { connect } from "@ropeway/core";
import { type Script, spawnScript, startRedis } from "@ropeway/testkit";
import { createClient } from "../src/index.ts";

const WORKER = new URL("./worker.ts", import.meta.url);

/** The number of calls, workers and faults. */
export interface KillPlan {
  readonly calls: number;
  readonly workers: number;
  readonly killEveryMs: number;
  readonly inFlight: number;
  readonly callMs: number;
}

/** The results of a run. */
export interface KillReport {
  readonly accepted: number;
  readonly completed: number;
  readonly wrong: number;
  readonly kills: number;
  /** Runs beyond the first of each call. */
  readonly extraRuns: number;
}

/** Runs the test. */
export async function chaosKill(plan: KillPlan): Promise<KillReport> {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  await using client = await createClient(redis, { ns: "chaos", timeoutMs: 120_000 });
  const workers: Script[] = [];
  const hire = async (number: number) => {
    const worker = await spawnScript(WORKER, { args: [server.url, `n${number}`] });
    await worker.waitForLine(/^ready/, { withinMs: 30_000 });
    return worker;
  };
  for (let i = 0; i < plan.workers; i++) workers.push(await hire(i));
  let kills = 0;
  let over = false;
  const killer = (async () => {
    for (let next = plan.workers; !over; next++) {
      await new Promise((resolve) => setTimeout(resolve, plan.killEveryMs));
      if (over) return;
      const victim = next % plan.workers;
      await workers[victim]?.close();
      kills += 1;
      workers[victim] = await hire(next);
    }
  })();
  let sent = 0;
  let completed = 0;
  let wrong = 0;
  const caller = async () => {
    while (sent < plan.calls) {
      const number = sent++;
      const result = await client.call("safe.work", [number, plan.callMs]);
      completed += 1;
      if (result !== number) wrong += 1;
    }
  };
  await Promise.all(Array.from({ length: plan.inFlight }, caller));
  over = true;
  await killer;
  const runs = await redis.send<string[]>(["HVALS", "runs"]);
  const extraRuns = runs.reduce((sum, count) => sum + Number(count) - 1, 0);
  await Promise.all(workers.map((worker) => worker.close()));
  return { accepted: sent, completed, wrong, kills, extraRuns };
}
