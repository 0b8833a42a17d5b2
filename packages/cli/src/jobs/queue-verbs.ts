/** The verbs of `ropeway jobs` that act on a whole queue. */
import type {
  JobState,
  Queue,
  QueueEvent,
  QueueLimits,
  Rate,
  Schedule,
  ScheduleView,
} from "@ropeway/jobs";
import type { Context } from "../context.ts";
import { durationOf, parseDuration } from "../duration.ts";
import { NotFoundError, UsageError } from "../errors.ts";
import { paint } from "../terminal/colour.ts";
import { plural } from "../terminal/plural.ts";
import { isoTime, withIsoTimes } from "../terminal/time.ts";
import { aborted } from "../wait.ts";
import { wholeNumber } from "../whole-number.ts";
import { dataOf, eventText } from "./job-text.ts";
import { withNewQueue, withQueue } from "./queue-access.ts";

/** What a verb does with the command line. */
type Verb = (context: Context) => Promise<void>;

/** A verb that changes a queue and has a word for what it did. */
function change(outcome: string, work: (queue: Queue) => Promise<void>): Verb {
  return (context: Context) =>
    withQueue(context, async (queue) => {
      await work(queue);
      context.output.outcome(outcome, { queue: queue.name }, `${queue.name} ${outcome}`);
    });
}

export const pause: Verb = change("paused", (queue) => queue.pause());
export const resume: Verb = change("resumed", (queue) => queue.resume());

/** A queue as a whole, in the shape of the HTTP API. */
export async function showQueue(context: Context): Promise<void> {
  await withQueue(context, async (queue) => {
    const [numbers, now, working, recurring] = await Promise.all([
      queue.counts(),
      queue.limits(),
      queue.workers(),
      queue.schedules(),
    ]);
    const { paused, oldestWaitingMs = null, totals, ...counts } = numbers;
    const facts = { name: queue.name, counts, paused, oldestWaitingMs, totals, limits: now };
    const lists = {
      workers: working.map(withIsoTimes),
      schedules: recurring.map(withIsoTimes),
    };
    const states = Object.entries(counts).map(([state, count]) => [state, count]);
    context.output.details(
      { ...facts, ...lists },
      {
        queue: queue.name,
        paused: paused ? paint("yellow", "yes") : "no",
        ...(Object.fromEntries(states) as Record<string, number>),
        "oldest waits": oldestWaitingMs === null ? undefined : `${oldestWaitingMs} ms`,
        totals: Object.entries(totals)
          .map(([what, count]) => `${count} ${what}`)
          .join(", "),
        ...limitFields(now),
        workers: working.length,
        schedules: recurring.length,
      },
    );
  });
}

export async function watch(context: Context): Promise<void> {
  const { output } = context;
  await withNewQueue(context, async (queue) => {
    const events = await queue.events();
    events.on("event", (event: QueueEvent) => {
      output.result(withIsoTimes(event), () => output.block(eventText(event)));
    });
    const unknown = (await queue.exists()) ? "" : ", which has no jobs yet";
    output.note(`watching ${queue.name}${unknown}; Ctrl-C stops it`);
    await aborted(AbortSignal.any([context.signal, output.unread]));
  });
}

export async function drain(context: Context): Promise<void> {
  const { options, output } = context;
  const states = (options.state as string[] | undefined) ?? ["waiting", "delayed"];
  const olderThanMs = durationOf(options, "olderThan") ?? 0;
  await withQueue(context, async (queue) => {
    const jobs = await queue.drain(states as Exclude<JobState, "active">[], { olderThanMs });
    output.outcome("drained", { queue: queue.name, jobs }, `${plural(jobs, "job")} removed`);
  });
}

export async function obliterate(context: Context): Promise<void> {
  const { options, output } = context;
  if (options.yes !== true) {
    throw new UsageError("this deletes the queue with all its jobs; repeat it with --yes");
  }
  await withQueue(context, async (queue) => {
    const jobs = await queue.obliterate({ force: options.force === true });
    output.outcome(
      "obliterated",
      { queue: queue.name, jobs },
      `${queue.name}: ${plural(jobs, "job")} deleted`,
    );
  });
}

export async function freeKey(context: Context): Promise<void> {
  const [, key = ""] = context.arguments;
  await withQueue(context, async (queue) => {
    const outcome = (await queue.removeDedupeKey(key)) ? "freed" : "not held";
    context.output.outcome(outcome, { queue: queue.name, key }, `${key} ${outcome}`);
  });
}

export async function workers(context: Context): Promise<void> {
  await withQueue(context, async (queue) => {
    const items = await queue.workers();
    context.output.list(
      { items },
      {
        columns: {
          ID: ({ id }) => id,
          NAME: ({ name }) => name,
          CONCURRENCY: ({ concurrency }) => concurrency,
          "LEASE MS": ({ leaseMs }) => leaseMs,
          SINCE: ({ startedAt }) => isoTime(startedAt),
          SEEN: ({ seenAt }) => isoTime(seenAt),
        },
        empty: `no workers: start one with \`ropeway jobs work-demo --queue ${queue.name}\``,
      },
    );
  });
}

export async function rates(context: Context): Promise<void> {
  const minutes = wholeNumber(context.options, "minutes", 1) ?? 60;
  await withQueue(context, async (queue) => {
    const items = await queue.rates(minutes);
    context.output.list(
      { items },
      {
        columns: {
          MINUTE: ({ at }) => isoTime(at),
          COMPLETED: ({ completed }) => completed,
          FAILED: ({ failed }) => (failed > 0 ? paint("red", String(failed)) : 0),
          RETRIED: ({ retried }) => retried,
          STALLED: ({ stalled }) => stalled,
          WAITING: ({ waiting }) => waiting,
          ACTIVE: ({ active }) => active,
        },
        empty: "no rates yet: a running worker writes them once a minute",
      },
    );
  });
}

export async function limits(context: Context): Promise<void> {
  const { options, output } = context;
  const wanted: QueueLimits = {
    ...countOf("concurrency", options.concurrency),
    ...rateOf("rate", options.rate),
    ...countOf("groupConcurrency", options.groupConcurrency),
    ...rateOf("groupRate", options.groupRate),
  };
  await withQueue(context, async (queue) => {
    if (Object.keys(wanted).length > 0) await queue.setLimits(wanted);
    const now = await queue.limits();
    output.details(now, limitFields(now));
  });
}

function limitFields(now: QueueLimits): Record<string, string> {
  return {
    concurrency: String(now.concurrency ?? "no limit"),
    rate: rateText(now.rate),
    "group concurrency": String(now.groupConcurrency ?? "no limit"),
    "group rate": rateText(now.groupRate),
  };
}

export async function schedules(context: Context): Promise<void> {
  await withQueue(context, async (queue) => {
    const items = await queue.schedules();
    context.output.list(
      { items },
      {
        columns: {
          ID: ({ id }) => id,
          JOB: ({ name }) => name,
          WHEN: whenText,
          NEXT: ({ nextAt }) => (nextAt === undefined ? "ended" : isoTime(nextAt)),
          RUNS: ({ runs }) => runs,
        },
        empty: `no schedules: add one with \`ropeway jobs schedule ${queue.name} ID JOB --every 1h\``,
      },
    );
  });
}

export async function schedule(context: Context): Promise<void> {
  const { options, output } = context;
  const [, id = "", name = "", data] = context.arguments;
  const everyMs = durationOf(options, "every", 1);
  const limit = wholeNumber(options, "limit", 1);
  const wanted: Schedule = {
    name,
    ...(data === undefined ? {} : { data: await dataOf(context, data) }),
    ...(options.cron === undefined ? {} : { cron: String(options.cron) }),
    ...(options.timeZone === undefined ? {} : { timeZone: String(options.timeZone) }),
    ...(everyMs === undefined ? {} : { everyMs }),
    ...(limit === undefined ? {} : { limit }),
    ...(options.immediately === true ? { immediately: true } : {}),
    ...(options.overlap === false ? { noOverlap: true } : {}),
  };
  await withNewQueue(context, async (queue) => {
    await queue.setSchedule(id, wanted);
    output.outcome("scheduled", { queue: queue.name, id }, `${id} scheduled`);
  });
}

export async function unschedule(context: Context): Promise<void> {
  const [, id = ""] = context.arguments;
  await withQueue(context, async (queue) => {
    if (!(await queue.removeSchedule(id))) {
      const known = (await queue.schedules()).map((each) => each.id);
      throw new NotFoundError("schedule", id, known);
    }
    context.output.outcome("removed", { queue: queue.name, id }, `${id} removed`);
  });
}

function whenText({ cron, timeZone, everyMs, malformed }: ScheduleView): string {
  if (malformed) return "cannot be read";
  if (cron === undefined) return `every ${everyMs} ms`;
  return timeZone === undefined ? cron : `${cron} (${timeZone})`;
}

function rateText(rate: Rate | null | undefined): string {
  return rate === undefined || rate === null ? "no limit" : `${rate.max} per ${rate.perMs} ms`;
}

/** A number, or "none" to remove the limit. */
function countOf(name: string, given: unknown): Record<string, number | null> {
  if (given === undefined) return {};
  return { [name]: given === "none" ? null : Number(given) };
}

/** MAX/TIME, or "none" to remove the limit. */
function rateOf(name: string, given: unknown): Record<string, Rate | null> {
  if (given === undefined) return {};
  if (given === "none") return { [name]: null };
  const [, max, time = ""] = /^(\d+)\/(.+)$/.exec(String(given)) ?? [];
  const perMs = parseDuration(time);
  if (max === undefined || perMs === undefined) {
    throw new UsageError("a rate is JOBS/TIME, such as 500/1s or 500/1000, or none");
  }
  return { [name]: { max: Number(max), perMs } };
}
