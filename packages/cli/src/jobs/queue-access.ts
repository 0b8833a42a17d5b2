/** The queue that a verb of `ropeway jobs` names, for the length of its work. */
import { Queue } from "@ropeway/jobs";
import type { Context } from "../context.ts";
import { NotFoundError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";

/** The beginning of the keys of this installation's queues. */
export function jobsPrefix(context: Context): string {
  return `${context.settings().values.prefix}:jobs`;
}

/** The names of the library's options on the command line. */
const FLAGS = {
  delayMs: "--delay",
  priority: "--priority",
  attempts: "--attempts",
  cron: "--cron",
  everyMs: "--every",
  timeZone: "--time-zone",
  limit: "--limit",
  concurrency: "--concurrency",
  groupConcurrency: "--group-concurrency",
  "rate.max": "--rate",
  "rate.perMs": "--rate",
  "groupRate.max": "--group-rate",
  "groupRate.perMs": "--group-rate",
};

/** Does the work with a queue that may not exist yet. */
export async function withNewQueue(
  context: Context,
  work: (queue: Queue) => Promise<void>,
): Promise<void> {
  const prefix = jobsPrefix(context);
  await using redis = await openRedis(await findRedis(context));
  await using queue = new Queue(redis, context.arguments[0] ?? "", { prefix });
  await namingFlags(FLAGS, () => work(queue));
}

/** Does the work with a queue that exists. */
export async function withQueue(
  context: Context,
  work: (queue: Queue) => Promise<void>,
): Promise<void> {
  const prefix = jobsPrefix(context);
  await using redis = await openRedis(await findRedis(context));
  await using queue = new Queue(redis, context.arguments[0] ?? "", { prefix });
  if (!(await queue.exists())) {
    throw new NotFoundError("queue", queue.name, await Queue.list(redis, { prefix }));
  }
  await namingFlags(FLAGS, () => work(queue));
}
