/** Task queues in the portal: queues, jobs, what can be done to them, and live events. */

import { once } from "node:events";
import type { Redis } from "@ropeway/core";
import { requireRedis } from "@ropeway/core/internal";
import {
  JOB_STATES,
  type JobState,
  type Queue,
  type QueueEvent,
  type QueueLimits,
} from "@ropeway/jobs";
import { DEFAULT_PREFIX } from "@ropeway/jobs/internal";
import { Gauge, type Registry } from "prom-client";
import { z } from "zod";
import { needs, type PermissionSpecs } from "../access/permission.ts";
import { isoTimeOrEpoch } from "../http/iso-time.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import { serveEvents } from "../sse.ts";
import { addJobRoutes } from "./job-routes.ts";
import { JobLimits, JobQueueDetail, JobQueueView } from "./jobs-contract.ts";
import { addQueueRoutes } from "./queue-routes.ts";
import { Queues } from "./queues.ts";
import { scheduleView, workerView } from "./views.ts";

/** What the part is given. */
export interface JobsPartOptions {
  /** What the queues' keys begin with. @default "ropeway:jobs" */
  readonly prefix?: string;
}

const view = { config: needs("job:view") };
const operate = { config: needs("job:operate") };
const QueuePath = z.object({ queue: z.string().min(1).max(1_000) });
const Drain = z.strictObject({
  states: z
    .array(z.enum(["waiting", "delayed", "blocked", "completed", "failed"]))
    .min(1)
    .default(["waiting", "delayed"]),
  olderThanMs: z.number().min(0).default(0),
});
/** A filter is refused: all jobs would be retried without it. */
const NoFilter = z.strictObject({}).nullish();
const Count = z.object({ jobs: z.int() });
const NO_BODY = z.undefined().describe("Done.");

/** The permissions of its routes. */
export const jobsPermissions: PermissionSpecs = {
  "job:view": { least: "viewer", means: "See queues, jobs, workers and schedules." },
  "job:operate": {
    least: "operator",
    means: "Add, change, retry, cancel and remove jobs; pause, limit, schedule and drain queues.",
  },
};

/** The part for the task queues. */
export function jobsPart(redis: Redis, options: JobsPartOptions = {}): PortalPart {
  requireRedis(redis);
  const queues = new Queues(redis, options.prefix ?? DEFAULT_PREFIX);
  return {
    name: "jobs",
    about: {
      en: "Task queues: waiting, running and failed jobs, and actions on them.",
      zh: "任务队列：等待中、运行中和失败的任务，以及对它们的操作。",
    },
    permissions: jobsPermissions,
    routes(app) {
      addQueues(app, queues);
      addOperations(app, queues);
      addEvents(app, queues);
      addQueueRoutes(app, queues);
      addJobRoutes(app, queues);
    },
    metrics: (registry) => addMetrics(registry, queues),
    close: () => queues.close(),
  };
}

function addQueues(app: PortalApp, queues: Queues): void {
  app.get(
    "/api/jobs/queues",
    {
      ...view,
      schema: {
        summary: "List the queues with their counts",
        response: { 200: z.array(JobQueueView) },
      },
    },
    async () => {
      const names = await queues.names();
      return Promise.all(names.map((name) => queues.useNew(name, queueView)));
    },
  );
  app.get(
    "/api/jobs/queues/:queue",
    {
      ...view,
      schema: {
        summary: "Show a queue, its workers, limits and schedules",
        params: QueuePath,
        response: { 200: JobQueueDetail },
      },
    },
    (request) =>
      queues.use(request.params.queue, async (queue) => {
        const [numbers, limits, workers, schedules] = await Promise.all([
          queueView(queue),
          queue.limits(),
          queue.workers(),
          queue.schedules(),
        ]);
        return {
          ...numbers,
          limits,
          workers: workers.map(workerView),
          schedules: schedules.map(scheduleView),
        };
      }),
  );
}

function addOperations(app: PortalApp, queues: Queues): void {
  const done = (summary: string) => ({
    ...operate,
    schema: { summary, params: QueuePath, response: { 204: NO_BODY } },
  });
  app.post(
    "/api/jobs/queues/:queue/pause",
    done("Take no jobs until resumed"),
    async (request, reply) => {
      await queues.use(request.params.queue, (queue) => queue.pause());
      return reply.code(204).send();
    },
  );
  app.post("/api/jobs/queues/:queue/resume", done("End a pause"), async (request, reply) => {
    await queues.use(request.params.queue, (queue) => queue.resume());
    return reply.code(204).send();
  });
  app.put(
    "/api/jobs/queues/:queue/limits",
    {
      ...operate,
      schema: {
        summary: "Set limits; null removes one",
        params: QueuePath,
        body: JobLimits,
        response: { 200: JobLimits },
      },
    },
    (request) =>
      queues.use(request.params.queue, async (queue) => {
        await queue.setLimits(request.body as QueueLimits);
        return queue.limits();
      }),
  );
  app.post(
    "/api/jobs/queues/:queue/retry-failed",
    {
      ...operate,
      schema: {
        summary: "Run all failed jobs again",
        params: QueuePath,
        body: NoFilter,
        response: { 200: Count },
      },
    },
    async (request) => ({
      jobs: await queues.use(request.params.queue, (queue) => queue.retryAll()),
    }),
  );
  app.post(
    "/api/jobs/queues/:queue/drain",
    {
      ...operate,
      schema: {
        summary: "Remove jobs by state; running jobs stay",
        params: QueuePath,
        body: Drain,
        response: { 200: Count },
      },
    },
    async (request) => {
      const { states, olderThanMs } = request.body;
      const drain = (queue: Queue) =>
        queue.drain(states as Exclude<JobState, "active">[], { olderThanMs });
      return { jobs: await queues.use(request.params.queue, drain) };
    },
  );
}

function addEvents(app: PortalApp, queues: Queues): void {
  app.get(
    "/api/jobs/queues/:queue/events",
    {
      ...view,
      schema: {
        summary: "Follow the events of a queue",
        params: QueuePath,
        produces: ["text/event-stream"],
      },
    },
    async (request, reply) => {
      const name = request.params.queue;
      await queues.check(name);
      return serveEvents(reply, (stream) =>
        queues.watch(name, async (events) => {
          const forward = (event: QueueEvent) => {
            // The stream itself disconnects a client that cannot keep up.
            const data = { ...event, at: isoTimeOrEpoch(event.at) };
            stream.send({ event: event.event, data }).catch(() => undefined);
          };
          events.on("event", forward);
          try {
            if (!stream.signal.aborted) await once(stream.signal, "abort");
          } finally {
            events.off("event", forward);
          }
        }),
      );
    },
  );
}

async function queueView(queue: Queue): Promise<JobQueueView> {
  const { paused, oldestWaitingMs, totals, ...counts } = await queue.counts();
  return { name: queue.name, counts, paused, oldestWaitingMs: oldestWaitingMs ?? null, totals };
}

/** The gauges that /metrics shows; docs/reference/metrics.md lists them. */
function addMetrics(registry: Registry, queues: Queues): void {
  const registers = [registry];
  const jobs = new Gauge({
    name: "ropeway_jobs",
    help: "Jobs by queue and state.",
    labelNames: ["queue", "state"],
    registers,
    // Both gauges are filled together, whichever is read first.
    collect: (): Promise<void> => filled(),
  });
  const oldest = new Gauge({
    name: "ropeway_jobs_oldest_waiting_seconds",
    help: "How long the next job of the queue has waited.",
    labelNames: ["queue"],
    registers,
    collect: (): Promise<void> => filled(),
  });
  let filling: Promise<void> | undefined;
  const filled = (): Promise<void> => {
    filling ??= fillGauges(queues, jobs, oldest).finally(() => {
      filling = undefined;
    });
    return filling;
  };
}

async function fillGauges(
  queues: Queues,
  jobs: Gauge<"queue" | "state">,
  oldest: Gauge<"queue">,
): Promise<void> {
  // While Redis is unreachable, they keep their values.
  const names = await queues.names().catch(() => undefined);
  if (names === undefined) return;
  const all = await Promise.all(
    names.map((name) => queues.useNew(name, (queue) => queue.counts()).catch(() => undefined)),
  );
  jobs.reset(); // a queue that was obliterated is not shown any more
  oldest.reset();
  for (const [i, counts] of all.entries()) {
    if (counts === undefined) continue;
    const queue = names[i] as string;
    for (const state of JOB_STATES) jobs.set({ queue, state }, counts[state]);
    oldest.set({ queue }, (counts.oldestWaitingMs ?? 0) / 1_000);
  }
}
