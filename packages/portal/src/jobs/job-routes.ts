/** The routes about single jobs. */
import { JobNotFoundError, type JobOptions } from "@ropeway/jobs";
import { z } from "zod";
import { needs } from "../access/permission.ts";
import { noteSubject } from "../access/subject.ts";
import { LARGE_PAGE_BYTES } from "../http/page-budget.ts";
import type { PortalApp } from "../part.ts";
import { JobChangesBody, JobDetail, JobPage, JobStateName, NewJob } from "./jobs-contract.ts";
import type { Queues } from "./queues.ts";
import { jobView } from "./views.ts";

const viewJobs = { config: { ...needs("job:view"), pageBytes: LARGE_PAGE_BYTES } };
const operate = { config: needs("job:operate") };
const QueuePath = z.object({ queue: z.string().min(1).max(1_000) });
const JobPath = QueuePath.extend({ id: z.string().min(1).max(1_000) });
const Search = z.object({
  state: JobStateName.optional(),
  name: z.string().max(1_000).optional(),
  text: z.string().max(1_000).optional(),
  group: z.string().max(1_000).optional(),
  limit: z.coerce.number().int().min(1).max(500).default(50),
  cursor: z
    .string()
    .regex(/^\d+\.\d+$/)
    .optional(),
});
const Reason = z.strictObject({ reason: z.string().max(200).default("") }).nullish();
const Outcome = z.object({ outcome: z.enum(["removed", "signalled"]) });
const Added = z.object({ id: z.string(), deduplicated: z.string().nullable() });
const NO_BODY = z.undefined().describe("Done.");

/** Adds them. */
export function addJobRoutes(app: PortalApp, queues: Queues): void {
  addLooking(app, queues);
  addChanging(app, queues);
  addUpdating(app, queues);
}

function addLooking(app: PortalApp, queues: Queues): void {
  app.get(
    "/api/jobs/queues/:queue/jobs",
    {
      ...viewJobs,
      schema: {
        summary: "List jobs by state, name, group and text",
        description:
          "In the order in which they run; ended ones newest first. A page of large jobs may be short.",
        params: QueuePath,
        querystring: Search,
        response: { 200: JobPage },
      },
    },
    async (request) => {
      const given = Object.entries(request.query).filter(([, value]) => value !== undefined);
      const query = { ...Object.fromEntries(given), maxBytes: LARGE_PAGE_BYTES };
      const page = await queues.use(request.params.queue, (queue) => queue.search(query));
      return { items: page.items.map(jobView), cursor: page.cursor ?? null };
    },
  );
  app.get(
    "/api/jobs/queues/:queue/jobs/:id",
    {
      ...viewJobs,
      schema: { summary: "Show a job", params: JobPath, response: { 200: JobDetail } },
    },
    async (request) => {
      const { queue, id } = request.params;
      const job = await queues.use(queue, (handle) => handle.get(id));
      if (job === undefined) throw new JobNotFoundError(queue, id);
      return jobView(job);
    },
  );
}

function addChanging(app: PortalApp, queues: Queues): void {
  app.post(
    "/api/jobs/queues/:queue/jobs",
    {
      ...operate,
      schema: { summary: "Add a job", params: QueuePath, body: NewJob, response: { 201: Added } },
    },
    async (request, reply) => {
      const { name, data, options = {} } = request.body;
      const given = Object.entries(options).filter(([, value]) => value !== undefined);
      const wishes = Object.fromEntries(given) as JobOptions;
      const { queue } = request.params;
      const job = await queues.useNew(queue, (handle) => handle.add(name, data, wishes));
      noteSubject(request, "queue", queue, "job", job.id);
      return reply.code(201).send({ id: job.id, deduplicated: job.deduplicated ?? null });
    },
  );
  for (const [verb, summary] of [
    ["retry", "Run an ended job again"],
    ["promote", "End a job's delay"],
  ] as const) {
    app.post(
      `/api/jobs/queues/:queue/jobs/:id/${verb}`,
      { ...operate, schema: { summary, params: JobPath, response: { 204: NO_BODY } } },
      async (request, reply) => {
        const { queue, id } = JobPath.parse(request.params);
        await queues.use(queue, (handle) => handle[verb](id));
        return reply.code(204).send();
      },
    );
  }
  app.post(
    "/api/jobs/queues/:queue/jobs/:id/cancel",
    {
      ...operate,
      schema: {
        summary: "Take a job out of the queue, or ask its handler to stop",
        params: JobPath,
        body: Reason,
        response: { 200: Outcome },
      },
    },
    async (request) => {
      const { queue, id } = request.params;
      const reason = request.body?.reason;
      return { outcome: await queues.use(queue, (handle) => handle.cancel(id, reason)) };
    },
  );
  app.delete(
    "/api/jobs/queues/:queue/jobs/:id",
    {
      ...operate,
      schema: {
        summary: "Remove a job that is not running",
        params: JobPath,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      const { queue, id } = request.params;
      await queues.use(queue, (handle) => handle.remove(id));
      return reply.code(204).send();
    },
  );
}

function addUpdating(app: PortalApp, queues: Queues): void {
  app.patch(
    "/api/jobs/queues/:queue/jobs/:id",
    {
      ...operate,
      schema: {
        summary: "Change the data, priority or delay of a job that has not started",
        params: JobPath,
        body: JobChangesBody,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      const { queue, id } = request.params;
      const given = Object.entries(request.body).filter(([, value]) => value !== undefined);
      await queues.use(queue, (handle) => handle.update(id, Object.fromEntries(given)));
      return reply.code(204).send();
    },
  );
}
