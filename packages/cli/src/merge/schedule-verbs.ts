/** `ropeway merge schedules|schedule|show-schedule|unschedule|pause-schedule|resume-schedule`: recurring pushes. */
import type { Schedule, ScheduleView } from "@ropeway/merge";
import type { Context } from "../context.ts";
import { durationOf } from "../duration.ts";
import { NotFoundError } from "../errors.ts";
import { stateCell } from "../terminal/colour.ts";
import { wholeNumber } from "../whole-number.ts";
import { bodyOf, requestOf } from "./key-verbs.ts";
import { pageOf, when, withMerge } from "./opened.ts";

export async function schedules(context: Context): Promise<void> {
  const { options, output } = context;
  await withMerge(context, async (opened) => {
    const page = await opened.schedules.list(pageOf(options));
    output.list(
      { items: page.items.map(shown), cursor: page.cursor },
      {
        columns: {
          ID: ({ id }) => id,
          STATE: ({ state }) => stateCell(state),
          WHEN: ({ schedule: given }) => whenText(given),
          NEXT: ({ nextAt }) => nextAt ?? "-",
          RUNS: ({ runs }) => runs,
          URL: ({ schedule: given }) => given?.destination.url ?? "",
          ERROR: ({ error }) => error ?? "",
        },
        empty: "no schedules: add one with `ropeway merge schedule ID KEY URL BODY --every 1h`",
      },
    );
  });
}

export async function schedule(context: Context): Promise<void> {
  const { options, output } = context;
  const [id = "", mergeKey = "", url = "", given = "-"] = context.arguments;
  const optional = (name: string) =>
    options[name] === undefined ? undefined : String(options[name]);
  await withMerge(context, async (opened) => {
    const wanted: Schedule = {
      destination: { mergeKey, url, method: optional("method") },
      body: await bodyOf(context, given),
      ...{ cron: optional("cron"), timeZone: optional("timeZone") },
      everyMs: durationOf(options, "every", 1),
      limit: wholeNumber(options, "limit", 1),
      maxLateMs: durationOf(options, "maxLateMs"),
      immediately: options.immediately === true,
      update: options.update as Schedule["update"],
      request: requestOf(options),
    };
    const { state, nextAt } = await opened.schedules.set(id, wanted);
    const next = nextAt === undefined ? null : when(nextAt);
    const sentence = `${id} ${next === null ? `is ${state}` : `runs at ${next}`}`;
    output.outcome("scheduled", { id, state, nextAt: next }, sentence);
  });
}

export async function showSchedule(context: Context): Promise<void> {
  const [id = ""] = context.arguments;
  await withMerge(context, async (opened) => {
    const view = shown(await opened.schedules.get(id));
    const { state, nextAt, lastAt, runs, error, schedule: given } = view;
    context.output.details(view, {
      id,
      state: stateCell(state),
      when: whenText(given),
      next: nextAt ?? undefined,
      last: lastAt ?? undefined,
      runs: given?.limit === undefined ? runs : `${runs} of ${given.limit}`,
      "merge key": given?.destination.mergeKey,
      url: given?.destination.url,
      method: given?.destination.method,
      body: given?.body,
      error: error ?? undefined,
    });
  });
}

export async function unschedule(context: Context): Promise<void> {
  const [id = ""] = context.arguments;
  await withMerge(context, async (opened) => {
    if (!(await opened.schedules.remove(id))) throw new NotFoundError("schedule", id);
    context.output.outcome("removed", { id }, `${id} removed`);
  });
}

export async function pauseSchedule(context: Context): Promise<void> {
  const [id = ""] = context.arguments;
  await withMerge(context, async (opened) => {
    await opened.schedules.pause(id);
    context.output.outcome("paused", { id }, `${id} paused`);
  });
}

export async function resumeSchedule(context: Context): Promise<void> {
  const [id = ""] = context.arguments;
  await withMerge(context, async (opened) => {
    await opened.schedules.resume(id);
    context.output.outcome("resumed", { id }, `${id} resumed`);
  });
}

function shown({ id, state, nextAt, lastAt, runs, error, schedule: given }: ScheduleView) {
  return {
    ...{ id, state, runs, error: error ?? null },
    nextAt: nextAt === undefined ? null : when(nextAt),
    lastAt: lastAt === undefined ? null : when(lastAt),
    schedule: given === undefined ? null : { ...given, body: String(given.body) },
  };
}

function whenText(given: Pick<Schedule, "cron" | "timeZone" | "everyMs"> | null): string {
  if (given === null) return "cannot be read";
  const { cron, timeZone, everyMs } = given;
  if (cron === undefined) return `every ${everyMs} ms`;
  return timeZone === undefined ? cron : `${cron} (${timeZone})`;
}
