/** `ropeway jobs work-demo`: a worker with handlers for trying things. */

import { sleep } from "@ropeway/core/internal";
import { type JobContext, Worker } from "@ropeway/jobs";
import type { Context } from "../context.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { aborted } from "../wait.ts";
import { wholeNumber } from "../whole-number.ts";

type SleepData = number | { readonly ms?: number } | undefined;

interface DemoJobs {
  echo: { data: unknown; result: unknown };
  sleep: { data: SleepData; result: string };
  fail: { data: unknown; result: never };
}

/** The names of the jobs that the demo worker has handlers for. */
export const DEMO_NAMES: readonly string[] = ["echo", "sleep", "fail"] satisfies (keyof DemoJobs)[];

const STEPS = 10;

/** Sleeps in steps, reports its progress, and stops when its signal aborts. */
async function sleepJob(job: JobContext<SleepData>): Promise<string> {
  const ms = Number(typeof job.data === "object" ? job.data.ms : job.data) || 1_000;
  for (let step = 1; step <= STEPS; step++) {
    await sleep(ms / STEPS, job.signal);
    await job.progress({ percent: (step * 100) / STEPS });
  }
  return `slept ${ms} ms`;
}

function failJob(job: JobContext): never {
  throw new Error(typeof job.data === "string" ? job.data : "this job always fails");
}

/** A result as JSON, and the message of an error. */
function textOf(outcome: unknown): string {
  return outcome instanceof Error ? outcome.message : JSON.stringify(outcome ?? null);
}

/** Works until Ctrl-C. */
export async function workDemo(context: Context): Promise<void> {
  const { options, output, signal } = context;
  const concurrency = wholeNumber(options, "concurrency", 1) ?? 4;
  const queue = String(options.queue);
  await using redis = await openRedis(await findRedis(context));
  const handlers = { echo: (job: JobContext) => job.data, sleep: sleepJob, fail: failJob };
  const prefix = `${context.settings().values.prefix}:jobs`;
  const how = { prefix, concurrency, autostart: false };
  await using worker = await namingFlags({ concurrency: "--concurrency" }, async () => {
    return new Worker<DemoJobs>(redis, queue, handlers, how);
  });
  const report = (word: string, job: JobContext, outcome: unknown) => {
    const more = outcome instanceof Error ? outcome.message : outcome;
    if (output.json) output.line(JSON.stringify({ event: word, id: job.id, name: job.name, more }));
    else output.line(`${word.padEnd(9)}  ${job.id}  ${job.name}  ${textOf(outcome)}`);
  };
  worker.on("completed", (job, result) => report("completed", job, result));
  worker.on("failed", (job, error) => report("failed", job, error));
  await worker.start();
  output.note(`working on ${queue}: echo, sleep, fail; Ctrl-C stops it`);
  await aborted(signal);
}
