/** What `ropeway jobs ...` does. Each verb opens the queues' Redis, does one thing, and closes it. */
import { show as quote } from "@ropeway/core/internal";
import {
  JobNotFoundError,
  type JobOptions,
  type JobState,
  type JobView,
  Queue,
  type QueueCounts,
  type QueueEvent,
} from "@ropeway/jobs";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { aborted } from "../wait.ts";
import { wholeNumber } from "../whole-number.ts";
import { eventText, jobText, timeText } from "./job-text.ts";
import { workDemo } from "./work-demo.ts";

/** What queues of this installation begin with. */
export function jobsPrefix(context: Context): string {
  return `${context.settings().values.prefix}:jobs`;
}

/** What the library calls options and the command line flags. */
const FLAGS = { delayMs: "--delay", priority: "--priority", attempts: "--attempts" };

/** The queue named first on the command line, for the length of some work. */
async function withQueue(context: Context, work: (queue: Queue) => Promise<void>): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  await using queue = new Queue(redis, context.arguments[0] ?? "", { prefix: jobsPrefix(context) });
  await namingFlags(FLAGS, () => work(queue));
}

async function add(context: Context): Promise<void> {
  const { arguments: given, options, output } = context;
  const [, name = "", text] = given;
  const data = text === undefined ? undefined : parse(text);
  const wishes = jobOptions(options);
  await withQueue(context, async (queue) => {
    const job = await queue.add(name, data, { ...wishes, awaited: options.wait === true });
    if (options.wait === true) {
      const result = await job.result({ signal: context.signal });
      output.result({ id: job.id, result }, () => output.line(JSON.stringify(result ?? null)));
      return;
    }
    const { id, deduplicated = null } = job;
    output.result({ id, deduplicated }, () => {
      output.line(deduplicated === null ? id : `${id} is there already`);
    });
  });
}

async function list(context: Context): Promise<void> {
  if (context.arguments[0] === undefined) return listQueues(context);
  const { options, output } = context;
  const limit = wholeNumber(options, "limit", 1) ?? 50;
  await withQueue(context, async (queue) => {
    const { items: jobs } = await queue.search({
      limit,
      ...(options.state === undefined ? {} : { state: options.state as JobState }),
      ...(options.name === undefined ? {} : { name: String(options.name) }),
      ...(options.search === undefined ? {} : { text: String(options.search) }),
    });
    output.result(jobs, () => {
      const rows = jobs.map((job) => [job.state, job.id, job.name, tries(job), note(job)]);
      output.table(["STATE", "ID", "NAME", "TRIES", "NOTE"], rows);
    });
  });
}

async function listQueues(context: Context): Promise<void> {
  const prefix = jobsPrefix(context);
  await using redis = await openRedis(await findRedis(context));
  const queues = await Promise.all(
    (await Queue.list(redis, { prefix })).map(async (name) => {
      return { name, ...(await new Queue(redis, name, { prefix }).counts()) };
    }),
  );
  context.output.result(queues, () => {
    const head = ["QUEUE", "WAITING", "DELAYED", "ACTIVE", "FAILED", "DONE", "PAUSED"];
    context.output.table(head, queues.map(queueRow));
  });
}

function queueRow(queue: QueueCounts & { readonly name: string }): string[] {
  const { name, waiting, delayed, active, failed, totals, paused } = queue;
  const numbers = [waiting, delayed, active, failed, totals.completed].map(String);
  return [name, ...numbers, paused ? "yes" : ""];
}

async function show(context: Context): Promise<void> {
  const id = context.arguments[1] ?? "";
  await withQueue(context, async (queue) => {
    const job = await queue.get(id);
    if (job === undefined) throw new JobNotFoundError(queue.name, id);
    context.output.result(job, () => context.output.block(jobText(job)));
  });
}

async function retry(context: Context): Promise<void> {
  const { arguments: given, options, output } = context;
  const ids = given.slice(1);
  if (ids.length === 0 && options.all !== true) {
    throw new UsageError("name the jobs to retry, or say --all");
  }
  await withQueue(context, async (queue) => {
    for (const id of ids) await queue.retry(id);
    const jobs = ids.length + (options.all === true ? await queue.retryAll() : 0);
    output.result({ jobs }, () => output.line(`${jobs} job(s) run again`));
  });
}

/** A verb that changes one job and has a word for what it did. */
function change(
  work: (queue: Queue, id: string) => Promise<string>,
): (context: Context) => Promise<void> {
  return (context) =>
    withQueue(context, async (queue) => {
      const outcome = await work(queue, context.arguments[1] ?? "");
      context.output.result({ outcome }, () => context.output.line(outcome));
    });
}

const promote = change(async (queue, id) => {
  await queue.promote(id);
  return "promoted";
});

const cancel = change((queue, id) => queue.cancel(id, "cancelled from the command line"));

const remove = change(async (queue, id) => {
  await queue.remove(id);
  return "removed";
});

const pause = change(async (queue) => {
  await queue.pause();
  return "paused";
});

const resume = change(async (queue) => {
  await queue.resume();
  return "resumed";
});

async function watch(context: Context): Promise<void> {
  const { output } = context;
  await withQueue(context, async (queue) => {
    const events = await queue.events();
    events.on("event", (event: QueueEvent) => {
      output.result(event, () => output.block(eventText(event)));
    });
    output.note(`watching ${queue.name}; Ctrl-C ends it`);
    await aborted(context.signal);
  });
}

/** What a verb does with the command line. */
type Verb = (context: Context) => Promise<void>;

/** By name, as the command line has them. */
export const verbs: Readonly<Record<VerbName, Verb>> = {
  add,
  list,
  show,
  retry,
  promote,
  cancel,
  remove,
  pause,
  resume,
  watch,
  "work-demo": workDemo,
};

/** Every verb of `ropeway jobs`. */
export type VerbName =
  | "add"
  | "list"
  | "show"
  | "retry"
  | "promote"
  | "cancel"
  | "remove"
  | "pause"
  | "resume"
  | "watch"
  | "work-demo";

function jobOptions(options: Context["options"]): JobOptions {
  const delayMs = wholeNumber(options, "delay", 0);
  const priority = wholeNumber(options, "priority");
  const attempts = wholeNumber(options, "attempts", 1);
  return {
    ...(options.id === undefined ? {} : { id: String(options.id) }),
    ...(options.group === undefined ? {} : { group: String(options.group) }),
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(priority === undefined ? {} : { priority }),
    ...(attempts === undefined ? {} : { attempts }),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(`data is ${quote(text)}, but must be JSON; write a text as '"text"'`);
  }
}

function tries({ attempts, maxAttempts }: JobView): string {
  return `${attempts}/${maxAttempts}`;
}

function note({ dueAt, worker, failure, progress }: JobView): string {
  if (failure !== undefined) return failure.message;
  if (dueAt !== undefined) return `due ${timeText(dueAt)}`;
  if (worker === undefined) return "";
  return `on ${worker}${progress === undefined ? "" : `, ${JSON.stringify(progress)}`}`;
}
