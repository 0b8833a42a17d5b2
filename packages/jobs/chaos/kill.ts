/**
 * Kills or stops workers at random, restarts Redis or makes it run out of memory, while jobs run. Every job
 * must complete, none may be lost, and a job that ran twice must have lost a worker in between. Its number
 * of runs never exceeds its stalls by more than one.
 *
 *   jobs added (here) --> Redis (AOF) --> N worker processes, one killed or stopped at intervals
 *
 * Work begins when all workers have started. Jobs are added until all planned faults have happened, so that
 * a fast machine does not finish before them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type Redis } from "@ropeway/core";
import { Queue } from "@ropeway/jobs";
import { eventually, type Script, spawnScript, startRedis } from "@ropeway/testkit";

const FIXTURE = new URL("../test/worker.fixture.ts", import.meta.url);

/** The number of jobs, workers and faults. */
export interface KillPlan {
  readonly jobs: number;
  readonly workers: number;
  readonly killEveryMs: number;
  /** The number of times that Redis is killed and restarted. */
  readonly restarts: number;
  /** The number of times that a worker is stopped (SIGSTOP) for longer than its lease. @default 0 */
  readonly stops?: number;
  /** The number of times that Redis is out of memory for a while. @default 0 */
  readonly outages?: number;
  readonly leaseMs: number;
  /** The duration of each job. */
  readonly jobMs: number;
  readonly withinMs: number;
  readonly seed: number;
}

/** The results of a run. */
export interface KillReport {
  readonly accepted: number;
  readonly completed: number;
  readonly ran: number;
  readonly lost: number;
  readonly duplicates: number;
  readonly unexplained: number;
  readonly stalled: number;
  readonly left: number;
  readonly kills: number;
  readonly restarts: number;
  readonly stops: number;
  readonly outages: number;
}

/** Runs the test. */
export async function chaosKill(plan: KillPlan): Promise<KillReport> {
  const random = randomFrom(plan.seed);
  const server = await startRedis({ appendonly: true });
  const redis = await connect(server.url, { offlineWaitMs: 30_000 });
  const queue = new Queue(redis, "chaos");
  const options = JSON.stringify({ concurrency: 10, leaseMs: plan.leaseMs, maxStalls: 1_000 });
  // A killed worker is replaced before the next one is chosen. Otherwise no worker might be left on a slow machine.
  const spawn = async () => {
    const script = await spawnScript(FIXTURE, { args: [server.url, queue.name, options] });
    await script.waitForLine(/^ready/, { withinMs: 60_000 });
    return script;
  };
  const workers: Script[] = [];
  const { stops: mostStops = 0, outages: mostOutages = 0 } = plan;
  let [kills, restarts, stops, outages, over] = [0, 0, 0, 0, false];
  try {
    const names = Array.from({ length: plan.jobs }, () => ({ name: "wait", data: plan.jobMs }));
    const ids = (await queue.pause().then(() => queue.addBulk(names))).map((job) => job.id);
    for (let i = 0; i < plan.workers; i++) workers.push(await spawn());
    await queue.resume();
    const trouble = (async () => {
      for (let n = 1; !over; n++) {
        await sleep(plan.killEveryMs * (0.5 + random()));
        if (over) return;
        const victim = Math.floor(random() * workers.length);
        await workers[victim]?.kill9();
        workers[victim] = await spawn();
        kills++;
        if (stops < mostStops && n % 3 === 1) {
          const stopped = workers[Math.floor(random() * workers.length)];
          stopped?.pause();
          await sleep(plan.leaseMs * 1.5);
          stopped?.resume();
          stops++;
        }
        if (outages < mostOutages && n % 3 === 2) {
          await server.command("CONFIG", "SET", "maxmemory", "1");
          await sleep(plan.leaseMs * 1.5);
          await server.command("CONFIG", "SET", "maxmemory", "0");
          outages++;
        }
        if (restarts < plan.restarts && n % 3 === 0) {
          await server.kill9();
          await server.start();
          restarts++;
        }
      }
    })();
    await eventually(
      async () => {
        const counts = await queue.counts();
        const left = counts.waiting + counts.delayed + counts.active;
        const planned = stops + outages + restarts === mostStops + mostOutages + plan.restarts;
        const all = planned && kills > 0;
        // Redis refuses them while it is down or full. The next check adds them.
        if (!all && left < plan.workers * 100) ids.push(...(await more(queue, plan.jobMs)));
        if (!all || left > 0) throw new Error(`${left} jobs left, ${all ? "no" : "more"} trouble`);
      },
      { withinMs: plan.withinMs, everyMs: 250 },
    );
    over = true;
    await trouble;
    return await judge(queue, ids, { kills, restarts, stops, outages, redis });
  } finally {
    over = true;
    await Promise.all(workers.map((worker) => worker.close()));
    await queue.close();
    await redis.close();
    await server.close();
  }
}

/** Adds more jobs in one script call, which accepts all of them or none. */
async function more(queue: Queue, jobMs: number): Promise<string[]> {
  const names = Array.from({ length: 400 }, () => ({ name: "wait", data: jobMs }));
  return (await queue.addBulk(names)).map((job) => job.id);
}

async function judge(
  queue: Queue,
  ids: readonly string[],
  run: Pick<KillReport, "kills" | "restarts" | "stops" | "outages"> & { redis: Redis },
): Promise<KillReport> {
  const runs = new Map<string, number[]>();
  const lines = await run.redis.send<readonly string[]>(["LRANGE", `ran:${queue.name}`, "0", "-1"]);
  for (const line of new Set(lines)) {
    const [id = "", stalls] = line.split(" ");
    runs.set(id, [...(runs.get(id) ?? []), Number(stalls)]);
  }
  // The n-th run of a job requires that n-1 workers were lost before it.
  const unexplained = [...runs.values()].filter((stalls) =>
    stalls.sort((a, b) => a - b).some((count, n) => count < n),
  ).length;
  const counts = await queue.counts();
  return {
    accepted: ids.length,
    completed: counts.totals.completed,
    ran: runs.size,
    lost: ids.filter((id) => !runs.has(id)).length,
    duplicates: [...runs.values()].filter((stalls) => stalls.length > 1).length,
    unexplained,
    stalled: counts.totals.stalled,
    left: counts.waiting + counts.delayed + counts.active + counts.failed,
    kills: run.kills,
    restarts: run.restarts,
    stops: run.stops,
    outages: run.outages,
  };
}

/** One line per invariant. */
export function killLines(report: KillReport): string[] {
  const { accepted, completed, ran, lost, duplicates, unexplained, stalled, left } = report;
  const line = (name: string, figures: string, holds: boolean) =>
    `INVARIANT jobs.${name} ${figures} ${holds ? "OK" : "VIOLATED"}`;
  const { kills, stops, restarts, outages } = report;
  return [
    line(
      "trouble-happened",
      `kills=${kills} stops=${stops} restarts=${restarts} out-of-memory=${outages}`,
      kills > 0,
    ),
    line(
      "none-lost",
      `accepted=${accepted} completed=${completed} ran=${ran} lost=${lost} left=${left}`,
      lost === 0 && left === 0 && completed === accepted && ran === accepted,
    ),
    line(
      "duplicates-explained",
      `duplicates=${duplicates} unexplained=${unexplained} leases-lost=${stalled}`,
      unexplained === 0,
    ),
  ];
}

/** A small repeatable generator (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
