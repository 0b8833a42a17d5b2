/**
 * Moves the slot of a queue between the nodes of a cluster while jobs are added and run. Every accepted job
 * must complete, and a job that ran twice must have lost its worker in between.
 *
 *   jobs and flows added (here) --> slot on node A <--> node B <--> node C --> workers (here)
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@ropeway/core";
import { type JobContext, Queue, Worker } from "@ropeway/jobs";
import { eventually, startCluster } from "@ropeway/testkit";

/** The number of moves and jobs. */
export interface MigratePlan {
  /** The number of moves of the slot. */
  readonly moves: number;
  /** Jobs added during each move. Every tenth is a parent with two children. */
  readonly jobsPerMove: number;
  readonly workers: number;
  readonly withinMs: number;
}

/** The results of a run. */
export interface MigrateReport {
  readonly moves: number;
  readonly accepted: number;
  readonly refused: number;
  readonly completed: number;
  readonly lost: number;
  readonly unexplained: number;
  readonly left: number;
}

/** Runs the test. */
export async function chaosMigrate(plan: MigratePlan): Promise<MigrateReport> {
  const cluster = await startCluster();
  const redis = await connect(cluster.url, { offlineWaitMs: 30_000 });
  const queue = new Queue(redis, "migrating");
  const runs = new Map<string, number[]>();
  const handler = async (job: JobContext) => {
    const { id, stalls } = job;
    runs.set(id, [...(runs.get(id) ?? []), stalls]);
    await sleep(2);
  };
  const options = { concurrency: 10, leaseMs: 3_000, maxStalls: 1_000 };
  const workers = Array.from({ length: plan.workers }, () => {
    const worker = new Worker(redis, queue.name, handler, options);
    return worker.on("error", () => {}); // the server refuses calls while the slot moves
  });
  const accepted: string[] = [];
  let refused = 0;
  const add = async (n: number) => {
    try {
      if (n % 10 > 0) accepted.push((await queue.add("job", n)).id);
      else {
        const children = [{ name: "child" }, { name: "child" }];
        const { id } = await queue.addFlow({ name: "parent", children });
        accepted.push(id, `${id}/0`, `${id}/1`);
      }
    } catch {
      refused++;
    }
  };
  try {
    const slot = await cluster.slotOf(`ropeway:jobs:{${queue.name}}:meta`);
    for (let move = 1; move <= plan.moves; move++) {
      const adding = Array.from({ length: plan.jobsPerMove }, (_, n) => add(n));
      const owner = await cluster.nodeOf(slot);
      const target = cluster.nodes[(cluster.nodes.indexOf(owner) + 1) % cluster.nodes.length];
      if (target !== undefined) await cluster.moveSlot(slot, target);
      await Promise.all(adding);
    }
    await eventually(
      async () => {
        const { waiting, delayed, active, blocked } = await queue.counts();
        const left = waiting + delayed + active + blocked;
        if (left > 0) throw new Error(`${left} jobs left`);
      },
      { withinMs: plan.withinMs, everyMs: 250 },
    );
    const counts = await queue.counts();
    const { waiting, delayed, active, blocked, failed, totals } = counts;
    return {
      moves: plan.moves,
      accepted: accepted.length,
      refused,
      completed: totals.completed,
      lost: accepted.filter((id) => !runs.has(id)).length,
      unexplained: [...runs.values()].filter((stalls) => stalls.some((count, n) => count < n))
        .length,
      left: waiting + delayed + active + blocked + failed,
    };
  } finally {
    await Promise.all(workers.map((worker) => worker.close()));
    await queue.close();
    await redis.close();
    await cluster.close();
  }
}

/** One line per invariant. */
export function migrateLines(report: MigrateReport): string[] {
  const { moves, accepted, refused, completed, lost, unexplained, left } = report;
  const figures = `moves=${moves} accepted=${accepted} refused=${refused} completed=${completed} lost=${lost} left=${left} unexplained=${unexplained}`;
  const holds = lost === 0 && left === 0 && unexplained === 0 && completed >= accepted;
  return [`INVARIANT jobs.survives-slot-migration ${figures} ${holds ? "OK" : "VIOLATED"}`];
}
