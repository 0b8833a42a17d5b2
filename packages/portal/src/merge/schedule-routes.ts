/** /api/merge/schedules: recurring pushes. */
import { InvalidArgumentError } from "@ropeway/core";
import type { Schedule, Schedules } from "@ropeway/merge";
import { z } from "zod";
import { LARGE_PAGE_BYTES } from "../http/page-budget.ts";
import type { PortalApp } from "../part.ts";
import { MergeScheduleBody, MergeSchedulePage, MergeScheduleView } from "./merge-contract.ts";
import { NO_BODY, operate, Paging, view } from "./route-schemas.ts";
import { scheduleView } from "./views.ts";

const SchedulePath = z.object({
  schedule: z
    .string()
    .regex(/^[\w.:-]{1,128}$/)
    .describe("The id of the schedule."),
});

export function addSchedules(app: PortalApp, schedules: Schedules): void {
  app.get(
    "/api/merge/schedules",
    {
      config: { ...view.config, pageBytes: LARGE_PAGE_BYTES },
      schema: {
        summary: "List recurring pushes, soonest first",
        description:
          "Those that are paused or have ended come last. A page has at most 1 MiB, so one of large schedules is short.",
        querystring: Paging,
        response: { 200: MergeSchedulePage },
      },
    },
    async (request) => {
      const { items, cursor } = await schedules.list(request.query);
      return { items: items.map(scheduleView), cursor: cursor ?? null };
    },
  );
  app.get(
    "/api/merge/schedules/:schedule",
    {
      ...view,
      schema: {
        summary: "Show a recurring push",
        params: SchedulePath,
        response: { 200: MergeScheduleView },
      },
    },
    async (request) => scheduleView(await schedules.get(request.params.schedule)),
  );
  app.put(
    "/api/merge/schedules/:schedule",
    {
      ...operate,
      schema: {
        summary: "Write or replace a recurring push",
        description: "With the times that it has already it goes on as before.",
        params: SchedulePath,
        body: MergeScheduleBody,
        response: { 200: MergeScheduleView },
      },
    },
    async (request) => {
      const { schedule } = request.params;
      return scheduleView(await schedules.set(schedule, scheduleOf(request.body)));
    },
  );
  app.delete(
    "/api/merge/schedules/:schedule",
    {
      ...operate,
      schema: {
        summary: "Delete a recurring push",
        description: "Items that it has pushed stay.",
        params: SchedulePath,
        response: { 200: z.object({ removed: z.boolean() }) },
      },
    },
    async (request) => ({ removed: await schedules.remove(request.params.schedule) }),
  );
  addPause(app, schedules);
}

function addPause(app: PortalApp, schedules: Schedules): void {
  for (const verb of ["pause", "resume"] as const) {
    app.post(
      `/api/merge/schedules/:schedule/${verb}`,
      {
        ...operate,
        schema: {
          summary: verb === "pause" ? "Pause a recurring push" : "Resume a recurring push",
          description: "Runs that fall into the pause are not made up for.",
          params: SchedulePath,
          response: { 204: NO_BODY },
        },
      },
      async (request, reply) => {
        await schedules[verb](request.params.schedule);
        return reply.code(204).send();
      },
    );
  }
}

function scheduleOf({ startAt, endAt, body, encoding, ...rest }: MergeScheduleBody): Schedule {
  const ms = (time: string | undefined) => (time === undefined ? undefined : Date.parse(time));
  return {
    ...rest,
    ...{ startAt: ms(startAt), endAt: ms(endAt) },
    body: encoding === "base64" ? decoded(body) : body,
  };
}

/** Node skips characters that are not base64, and would push another body. */
function decoded(body: string): Buffer {
  if (/^[\w+/-]*={0,2}$/.test(body)) return Buffer.from(body, "base64");
  throw new InvalidArgumentError("body", body.slice(0, 60), "base64");
}
