/** The routes about a queue's rates, recurring jobs and dedupe keys, and its deletion. */
import type { Schedule } from "@ropeway/jobs";
import { z } from "zod";
import { needs } from "../access/permission.ts";
import type { PortalApp } from "../part.ts";
import { JobMinute, JobScheduleBody } from "./jobs-contract.ts";
import type { Queues } from "./queues.ts";
import { minuteView } from "./views.ts";

const view = { config: needs("job:view") };
const operate = { config: needs("job:operate") };
const name = z.string().min(1).max(1_000);
const QueuePath = z.object({ queue: name });
const NO_BODY = z.undefined().describe("Done.");

/** Adds them. */
export function addQueueRoutes(app: PortalApp, queues: Queues): void {
  addRates(app, queues);
  addSchedules(app, queues);
  addDeleting(app, queues);
}

function addRates(app: PortalApp, queues: Queues): void {
  app.get(
    "/api/jobs/queues/:queue/rates",
    {
      ...view,
      schema: {
        summary: "Show how many jobs ended in each of the last minutes, oldest first",
        params: QueuePath,
        querystring: z.object({ minutes: z.coerce.number().int().min(1).max(1_440).default(60) }),
        response: { 200: z.array(JobMinute) },
      },
    },
    async ({ params, query }) => {
      const minutes = await queues.use(params.queue, (queue) => queue.rates(query.minutes));
      return minutes.map(minuteView);
    },
  );
}

function addSchedules(app: PortalApp, queues: Queues): void {
  const SchedulePath = QueuePath.extend({ schedule: name });
  app.put(
    "/api/jobs/queues/:queue/schedules/:schedule",
    {
      ...operate,
      schema: {
        summary: "Write or replace a recurring job",
        params: SchedulePath,
        body: JobScheduleBody,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      const { queue, schedule } = request.params;
      const wanted = scheduleOf(request.body);
      await queues.useNew(queue, (handle) => handle.setSchedule(schedule, wanted));
      return reply.code(204).send();
    },
  );
  app.delete(
    "/api/jobs/queues/:queue/schedules/:schedule",
    {
      ...operate,
      schema: {
        summary: "Remove a recurring job",
        params: SchedulePath,
        response: { 200: z.object({ removed: z.boolean() }) },
      },
    },
    async (request) => {
      const { queue, schedule } = request.params;
      return { removed: await queues.use(queue, (handle) => handle.removeSchedule(schedule)) };
    },
  );
}

function scheduleOf({ startAt, endAt, ...rest }: JobScheduleBody): Schedule {
  const ms = (time: string | undefined) => (time === undefined ? undefined : Date.parse(time));
  const fields = Object.entries({ ...rest, startAt: ms(startAt), endAt: ms(endAt) });
  const given: object = Object.fromEntries(fields.filter(([, value]) => value !== undefined));
  return given as Schedule;
}

function addDeleting(app: PortalApp, queues: Queues): void {
  app.delete(
    "/api/jobs/queues/:queue/dedupe/:key",
    {
      ...operate,
      schema: {
        summary: "Free a dedupe key",
        params: QueuePath.extend({ key: name }),
        response: { 200: z.object({ freed: z.boolean() }) },
      },
    },
    async (request) => {
      const { queue, key } = request.params;
      return { freed: await queues.use(queue, (handle) => handle.removeDedupeKey(key)) };
    },
  );
  app.post(
    "/api/jobs/queues/:queue/obliterate",
    {
      ...operate,
      schema: {
        summary: "Delete a queue with all its jobs",
        params: QueuePath,
        body: z.strictObject({ force: z.boolean().default(false) }),
        response: { 200: z.object({ jobs: z.int() }) },
      },
    },
    async (request) => {
      const { force } = request.body;
      const obliterate = queues.use(request.params.queue, (queue) => queue.obliterate({ force }));
      return { jobs: await obliterate };
    },
  );
}
