/**
 * Runs jobs that always kill their worker together with ordinary jobs. The first must become dead letters,
 * and every ordinary job must complete, even if it ran in a worker that was killed.
 */
import { connect } from "@ropeway/core";
import { Queue } from "@ropeway/jobs";
import { eventually, type Script, spawnScript, startRedis } from "@ropeway/testkit";

const FIXTURE = new URL("../test/worker.fixture.ts", import.meta.url);

/** The number of jobs of each kind. */
export interface PoisonPlan {
  readonly poison: number;
  readonly innocent: number;
  readonly workers: number;
  readonly withinMs: number;
}

/** The results of a run. */
export interface PoisonReport {
  readonly poison: number;
  readonly innocent: number;
  readonly failed: number;
  readonly completed: number;
  readonly blamed: number;
  readonly deaths: number;
}

/** Runs the test. A worker that died is replaced. */
export async function chaosPoison(plan: PoisonPlan): Promise<PoisonReport> {
  const server = await startRedis();
  const redis = await connect(server.url);
  const queue = new Queue(redis, "poison");
  const options = JSON.stringify({ concurrency: 10, leaseMs: 1_000, maxStalls: 2 });
  const workers = new Set<Script>();
  let [deaths, over] = [0, false];
  const work = async (): Promise<void> => {
    while (!over) {
      const script = await spawnScript(FIXTURE, { args: [server.url, queue.name, options] });
      workers.add(script);
      await script.exited;
      workers.delete(script);
      if (!over) deaths++;
    }
  };
  try {
    const every = Math.ceil(plan.innocent / plan.poison);
    const jobs = Array.from({ length: plan.innocent }, (_, i) => ({ name: "wait", data: i % 20 }));
    for (let i = 0; i < plan.poison; i++) jobs.splice(i * every, 0, { name: "die", data: 0 });
    await queue.addBulk(jobs);
    const working = Array.from({ length: plan.workers }, work);
    await eventually(
      async () => {
        const { waiting, delayed, active } = await queue.counts();
        if (waiting + delayed + active > 0) throw new Error("jobs are left");
      },
      { withinMs: plan.withinMs, everyMs: 250 },
    );
    over = true;
    await Promise.all([...workers].map((script) => script.close()));
    await Promise.all(working);
    const { failed, totals } = await queue.counts();
    const blamed = (await queue.search({ state: "failed", name: "wait" })).items.length;
    const { poison, innocent } = plan;
    return { poison, innocent, failed, completed: totals.completed, blamed, deaths };
  } finally {
    over = true;
    await Promise.all([...workers].map((script) => script.close()));
    await queue.close();
    await redis.close();
    await server.close();
  }
}

/** One line per invariant. */
export function poisonLines(report: PoisonReport): string[] {
  const { poison, innocent, failed, completed, blamed, deaths } = report;
  const holds = failed === poison && completed === innocent && blamed === 0;
  const figures = `poison=${poison} failed=${failed} innocent=${innocent} completed=${completed} blamed=${blamed} deaths=${deaths}`;
  return [`INVARIANT jobs.only-poison-fails ${figures} ${holds ? "OK" : "VIOLATED"}`];
}
