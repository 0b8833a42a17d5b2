/** What `ropeway jobs ...` does. Each verb opens the queues' Redis, does one thing, and closes it. */
import {
  type ChildOutcome,
  JobNotFoundError,
  type JobOptions,
  type JobState,
  type JobView,
  Queue,
  type QueueCounts,
  type SearchQuery,
} from "@ropeway/jobs";
import type { Context } from "../context.ts";
import { durationOf } from "../duration.ts";
import { UsageError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { paint, stateCell } from "../terminal/colour.ts";
import { plural } from "../terminal/plural.ts";
import { isoTime, withIsoTimes } from "../terminal/time.ts";
import { wholeNumber } from "../whole-number.ts";
import { dataOf, jobText } from "./job-text.ts";
import { jobsPrefix, withNewQueue, withQueue } from "./queue-access.ts";
import * as queueVerbs from "./queue-verbs.ts";
import { DEMO_NAMES, workDemo } from "./work-demo.ts";

async function add(context: Context): Promise<void> {
  const { arguments: given, options, output } = context;
  const [, name = "", text] = given;
  const data = text === undefined ? undefined : await dataOf(context, text);
  const wishes = jobOptions(options);
  await withNewQueue(context, async (queue) => {
    const job = await queue.add(name, data, { ...wishes, awaited: options.wait === true });
    if (options.wait === true) {
      if ((await queue.workers()).length === 0) {
        // The demo worker would fail a job whose name it does not know.
        const start = DEMO_NAMES.includes(name)
          ? ` Start one with \`ropeway jobs work-demo --queue ${queue.name}\`, or press Ctrl-C.`
          : " Ctrl-C stops waiting; the job stays in the queue.";
        output.note(`No workers: waiting for one.${start}`);
      }
      const result = await job.result({ signal: context.signal });
      output.result({ id: job.id, result }, () => output.line(JSON.stringify(result ?? null)));
      return;
    }
    const { id, deduplicated = null } = job;
    output.result({ id, deduplicated }, () => {
      output.line(deduplicated === null ? id : `${id} exists already`);
    });
  });
}

async function list(context: Context): Promise<void> {
  if (context.arguments[0] === undefined) return listQueues(context);
  const { options, output } = context;
  const limit = wholeNumber(options, "limit", 1) ?? 50;
  await withQueue(context, async (queue) => {
    const page = await queue.search({
      limit,
      ...(options.cursor === undefined ? {} : { cursor: String(options.cursor) }),
      ...(options.state === undefined ? {} : { state: options.state as JobState }),
      ...filterOf(options),
    });
    output.list(page, {
      columns: {
        STATE: ({ state }) => stateCell(state),
        ID: ({ id }) => id,
        NAME: ({ name }) => name,
        ATTEMPTS: ({ attempts, maxAttempts }) => `${attempts}/${maxAttempts}`,
        NOTE: note,
      },
      empty: `no jobs found: add one with \`ropeway jobs add ${queue.name} NAME\``,
    });
  });
}

async function listQueues(context: Context): Promise<void> {
  const prefix = jobsPrefix(context);
  await using redis = await openRedis(await findRedis(context));
  const names = await Queue.list(redis, { prefix });
  const items = await Promise.all(
    names.map(async (name) => ({ name, ...(await new Queue(redis, name, { prefix }).counts()) })),
  );
  context.output.list<QueueCounts & { readonly name: string }>(
    { items },
    {
      columns: {
        QUEUE: ({ name }) => name,
        WAITING: ({ waiting }) => waiting,
        DELAYED: ({ delayed }) => delayed,
        ACTIVE: ({ active }) => active,
        FAILED: ({ failed }) => (failed > 0 ? paint("red", String(failed)) : 0),
        COMPLETED: ({ totals }) => totals.completed,
        PAUSED: ({ paused }) => (paused ? paint("yellow", "yes") : ""),
      },
      empty: "no queues: add a job with `ropeway jobs add QUEUE NAME`",
    },
  );
}

async function show(context: Context): Promise<void> {
  const [, id] = context.arguments;
  if (id === undefined) return queueVerbs.showQueue(context);
  await withQueue(context, async (queue) => {
    const job = await queue.get(id);
    if (job === undefined) throw new JobNotFoundError(queue.name, id);
    context.output.result(withIsoTimes(job), () => context.output.block(jobText(job)));
  });
}

async function children(context: Context): Promise<void> {
  const id = context.arguments[1] ?? "";
  await withQueue(context, async (queue) => {
    const items = await queue.children(id);
    if (items.length === 0 && (await queue.get(id)) === undefined) {
      throw new JobNotFoundError(queue.name, id);
    }
    context.output.list<ChildOutcome>(
      { items },
      {
        columns: {
          STATE: ({ state }) => stateCell(state),
          ID: (child) => child.id,
          NOTE: outcomeNote,
        },
        empty: "no children: only a job of a flow has them",
      },
    );
  });
}

async function result(context: Context): Promise<void> {
  const { output, options, signal } = context;
  const id = context.arguments[1] ?? "";
  const timeoutMs = durationOf(options, "timeout", 1);
  await withQueue(context, async (queue) => {
    const value = await queue.result(id, { signal, ...(timeoutMs && { timeoutMs }) });
    output.result({ id, result: value }, () => output.line(JSON.stringify(value ?? null)));
  });
}

async function retry(context: Context): Promise<void> {
  const { arguments: given, options, output } = context;
  const ids = given.slice(1);
  const filter = filterOf(options);
  const many = options.all === true || Object.keys(filter).length > 0;
  if (ids.length === 0 && !many) {
    throw new UsageError("name the jobs to retry, filter them, or pass --all");
  }
  await withQueue(context, async (queue) => {
    for (const id of ids) await queue.retry(id);
    const jobs = ids.length + (many ? await queue.retryAll(filter) : 0);
    output.outcome("retried", { jobs }, `${plural(jobs, "job")} retried`);
  });
}

async function update(context: Context): Promise<void> {
  const { arguments: given, options, output } = context;
  const [, id = ""] = given;
  const priority = wholeNumber(options, "priority");
  const delayMs = durationOf(options, "delay");
  const changes = {
    ...(options.data === undefined ? {} : { data: await dataOf(context, String(options.data)) }),
    ...(priority === undefined ? {} : { priority }),
    ...(delayMs === undefined ? {} : { delayMs }),
  };
  if (Object.keys(changes).length === 0) {
    throw new UsageError("pass what to change: --data, --priority or --delay");
  }
  await withQueue(context, async (queue) => {
    await queue.update(id, changes);
    output.outcome("updated", { id }, `${id} updated`);
  });
}

/** A verb that changes one job and has a word for what it did. */
function change(work: (queue: Queue, id: string) => Promise<string>): Verb {
  return (context) =>
    withQueue(context, async (queue) => {
      const id = context.arguments[1] ?? "";
      const outcome = await work(queue, id);
      context.output.outcome(outcome, { id }, `${id} ${outcome}`);
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

/** What a verb does with the command line. */
type Verb = (context: Context) => Promise<void>;

/** By name, as the command line has them. */
export const verbs: Readonly<Record<VerbName, Verb>> = {
  add,
  list,
  show,
  children,
  result,
  retry,
  update,
  promote,
  cancel,
  remove,
  pause: queueVerbs.pause,
  resume: queueVerbs.resume,
  drain: queueVerbs.drain,
  obliterate: queueVerbs.obliterate,
  "free-key": queueVerbs.freeKey,
  workers: queueVerbs.workers,
  rates: queueVerbs.rates,
  limits: queueVerbs.limits,
  schedules: queueVerbs.schedules,
  schedule: queueVerbs.schedule,
  unschedule: queueVerbs.unschedule,
  watch: queueVerbs.watch,
  "work-demo": workDemo,
};

/** Every verb of `ropeway jobs`. */
export type VerbName =
  | "add"
  | "list"
  | "show"
  | "children"
  | "result"
  | "retry"
  | "update"
  | "promote"
  | "cancel"
  | "remove"
  | "pause"
  | "resume"
  | "drain"
  | "obliterate"
  | "free-key"
  | "workers"
  | "rates"
  | "limits"
  | "schedules"
  | "schedule"
  | "unschedule"
  | "watch"
  | "work-demo";

/** The jobs that --name, --group and --search choose. */
function filterOf(options: Context["options"]): Pick<SearchQuery, "name" | "group" | "text"> {
  return {
    ...(options.name === undefined ? {} : { name: String(options.name) }),
    ...(options.group === undefined ? {} : { group: String(options.group) }),
    ...(options.search === undefined ? {} : { text: String(options.search) }),
  };
}

function outcomeNote(child: ChildOutcome): string {
  if (child.state === "failed") return child.failure.message;
  return child.state === "completed" ? JSON.stringify(child.result ?? null) : "";
}

function jobOptions(options: Context["options"]): JobOptions {
  const delayMs = durationOf(options, "delay");
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

function note({ dueAt, worker, failure, progress }: JobView): string {
  if (failure !== undefined) return failure.message;
  if (dueAt !== undefined) return `due ${isoTime(dueAt)}`;
  if (worker === undefined) return "";
  return `on ${worker}${progress === undefined ? "" : `, ${JSON.stringify(progress)}`}`;
}
