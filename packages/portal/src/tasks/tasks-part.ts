/** The tasks of the cluster over HTTP. Which groups a caller may see is decided here, route by route. */
import {
  type Cluster,
  DuplicateTaskError,
  type Json,
  TASK_STATUSES,
  type Tasks,
} from "@ropeway/cluster";
import type { FastifyRequest } from "fastify";
import { Gauge, type Registry } from "prom-client";
import { z } from "zod";
import { callerOf, isAdmin, rightsOf } from "../access/guard.ts";
import { needs, type PermissionSpecs } from "../access/permission.ts";
import { noteSubject } from "../access/subject.ts";
import { ForbiddenError } from "../errors.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import { serveEvents } from "../sse.ts";
import { sendTaskEvents } from "./task-events.ts";
import { taskView } from "./task-view.ts";
import {
  NewTaskBody,
  TaskEditBody,
  TaskKeyPage,
  TaskOffset,
  TaskPage,
  TaskView,
} from "./tasks-contract.ts";

const NO_BODY = z.undefined().describe("Done.");
const TaskPath = z.object({ id: z.string().min(1).max(200) });
const text = z.string().min(1).max(200);
const paging = {
  cursor: z.string().max(500).optional(),
  limit: z.coerce.number().int().min(1).max(500).default(50),
};
const Search = z.object({
  status: text.optional(),
  node: text.optional(),
  group: text.optional(),
  name: text.optional(),
  type: text.optional(),
  ...paging,
});
const Paging = z.object(paging);
const StartBody = z
  .strictObject({ afresh: z.boolean().optional().describe("Begin anew instead of resuming.") })
  .nullish();
const MoveBody = z.strictObject({ node: text });
const IdempotencyHeader = z.object({
  "idempotency-key": z.string().min(1).max(255).optional(),
});

const view = { config: needs("task:view") };

/** The permissions of its routes. */
export const tasksPermissions: PermissionSpecs = {
  "task:view": { least: "viewer", means: "See tasks." },
  "task:operate": { least: "operator", means: "Start, stop and move tasks." },
  "task:edit": { least: "operator", means: "Create, change and remove tasks." },
};

/** The part for tasks. */
export function tasksPart(cluster: Cluster): PortalPart {
  return {
    name: "tasks",
    about: { en: "Create, start, stop and follow tasks.", zh: "创建、启动、停止并跟踪任务。" },
    permissions: tasksPermissions,
    probes: { store: () => cluster.store.status() },
    routes(app) {
      addLists(app, cluster);
      addChanges(app, cluster);
      addVerbs(app, cluster);
      addDetails(app, cluster);
    },
    metrics: (registry) => addMetrics(registry, cluster),
  };
}

function addLists(app: PortalApp, { tasks }: Cluster): void {
  app.get(
    "/api/tasks",
    {
      ...view,
      schema: {
        summary: "List tasks by status, node, group, name and type",
        description: "A page can be shorter than asked for and still have a cursor.",
        querystring: Search,
        response: { 200: TaskPage },
      },
    },
    async (request) => {
      const { groups } = rightsOf(request);
      const { items, cursor } = await tasks.list({ ...request.query, groups });
      return { items: items.map(taskView), cursor: cursor ?? null };
    },
  );
  app.get(
    "/api/tasks/:id",
    { ...view, schema: { summary: "Show a task", params: TaskPath, response: { 200: TaskView } } },
    async (request) => taskView(await seenBy(request, tasks).get(request.params.id)),
  );
}

function addChanges(app: PortalApp, { tasks }: Cluster): void {
  const edit = { config: needs("task:edit") };
  app.post(
    "/api/tasks",
    {
      ...edit,
      schema: {
        summary: "Create a task",
        description:
          "With an Idempotency-Key header, repeating the request within a day creates nothing and returns the first task.",
        headers: IdempotencyHeader,
        body: NewTaskBody,
        response: { 200: TaskView, 201: TaskView },
      },
    },
    async (request, reply) => {
      const { config, ...wish } = request.body;
      noteSubject(request, "task", wish.name);
      checkGroup(request, wish.group);
      if (wish.start === true) checkStart(request);
      const creating = tasks.create({
        ...wish,
        config: config as Json,
        ...(isAdmin(request) && { local: true }),
        idempotencyKey: request.headers["idempotency-key"],
        requester: callerOf(request).account.username,
      });
      const { task, repeated } = await hidingOthers(request, tasks, creating);
      noteSubject(request, "task", task.taskId);
      // The first request may be long ago, and the task may be in another group now.
      if (repeated) await seenBy(request, tasks).get(task.taskId);
      return reply.code(repeated ? 200 : 201).send(taskView(task));
    },
  );
  app.patch(
    "/api/tasks/:id",
    {
      ...edit,
      schema: {
        summary: "Change a task",
        description:
          "Name, group and configuration only while it is at rest; immortal at any time.",
        params: TaskPath,
        body: TaskEditBody,
        response: { 200: TaskView },
      },
    },
    async (request) => {
      const { config, ...rest } = request.body;
      if (rest.group !== undefined) checkGroup(request, rest.group);
      const configured = { config: config as Json, local: isAdmin(request) };
      const wish = config === undefined ? rest : { ...rest, ...configured };
      const editing = seenBy(request, tasks).edit(request.params.id, wish);
      return taskView(await hidingOthers(request, tasks, editing));
    },
  );
  app.delete(
    "/api/tasks/:id",
    {
      ...edit,
      schema: {
        summary: "Remove a task that is not running",
        params: TaskPath,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      await seenBy(request, tasks).remove(request.params.id);
      return reply.code(204).send();
    },
  );
}

function addVerbs(app: PortalApp, { tasks }: Cluster): void {
  const operate = { config: needs("task:operate") };
  app.post(
    "/api/tasks/:id/start",
    {
      ...operate,
      schema: {
        summary: "Start a task",
        params: TaskPath,
        body: StartBody,
        response: { 200: TaskView },
      },
    },
    async (request) => {
      const starting = seenBy(request, tasks).start(request.params.id, request.body ?? {});
      return taskView(await starting);
    },
  );
  app.post(
    "/api/tasks/:id/stop",
    {
      ...operate,
      schema: {
        summary: "Stop a task",
        description: "A running task has the status STOP when its node has stopped it.",
        params: TaskPath,
        response: { 200: TaskView },
      },
    },
    async (request) => {
      return taskView(await seenBy(request, tasks).stop(request.params.id));
    },
  );
  app.post(
    "/api/tasks/:id/move",
    {
      ...operate,
      schema: {
        summary: "Move a task to a node",
        params: TaskPath,
        body: MoveBody,
        response: { 200: TaskView },
      },
    },
    async (request) => {
      noteSubject(request, "task", request.params.id, "node", request.body.node);
      return taskView(await seenBy(request, tasks).move(request.params.id, request.body.node));
    },
  );
}

function addDetails(app: PortalApp, cluster: Cluster): void {
  const { tasks } = cluster;
  app.get(
    "/api/tasks/:id/events",
    {
      ...view,
      schema: {
        summary: "Follow the events of a task",
        params: TaskPath,
        produces: ["text/event-stream"],
      },
    },
    async (request, reply) => {
      const { taskId } = await seenBy(request, tasks).get(request.params.id);
      const { groups } = rightsOf(request);
      return serveEvents(reply, (stream) => sendTaskEvents(cluster, { taskId, groups }, stream));
    },
  );
  app.get(
    "/api/tasks/:id/offset",
    {
      ...view,
      schema: {
        summary: "The last stored offset",
        description: "For display; the truth is the checkpoint in the target.",
        params: TaskPath,
        response: { 200: TaskOffset },
      },
    },
    async (request) => {
      const { taskId } = await seenBy(request, tasks).get(request.params.id);
      const {
        replId = "",
        replOffset = "-1",
        db = 0,
        epoch = 0,
        at = 0,
      } = await tasks.offset(taskId);
      return {
        replId: String(replId),
        replOffset: String(replOffset),
        db: Number(db),
        epoch: Number(epoch),
        at: new Date(Number(at)).toISOString(),
      };
    },
  );
  for (const [path, kind, summary] of [
    ["bigkeys", "bigKeys", "Keys that were written in parts, the newest 1000"],
    ["discarded", "discarded", "Keys that could not be written, the newest 1000"],
  ] as const) {
    app.get(
      `/api/tasks/:id/${path}`,
      {
        ...view,
        schema: { summary, params: TaskPath, querystring: Paging, response: { 200: TaskKeyPage } },
      },
      async (request) => {
        const { id } = TaskPath.parse(request.params);
        const { taskId } = await seenBy(request, tasks).get(id);
        const page = await tasks.records.page(kind, taskId, Paging.parse(request.query));
        const items = page.items.map(({ id: name, key, command, command_type: type, at }) => {
          return { id: name, key, command, type, at: new Date(at).toISOString() };
        });
        return { items, cursor: page.cursor ?? null };
      },
    );
  }
}

/** The tasks that the caller may see. Any other task is reported as unknown. */
function seenBy(request: FastifyRequest, tasks: Tasks): Tasks {
  return tasks.ofGroups(rightsOf(request).groups);
}

/** Hides the id of the task that has the name already, if the caller may not see that task. */
async function hidingOthers<T>(
  request: FastifyRequest,
  tasks: Tasks,
  change: Promise<T>,
): Promise<T> {
  try {
    return await change;
  } catch (error) {
    if (!(error instanceof DuplicateTaskError) || error.taskId === undefined) throw error;
    const isVisible = await seenBy(request, tasks)
      .get(error.taskId)
      .then(
        () => true,
        () => false,
      );
    throw isVisible ? error : new DuplicateTaskError(error.field, error.value);
  }
}

function checkGroup(request: FastifyRequest, group: string | undefined): void {
  const { groups } = rightsOf(request);
  if (groups === undefined || (group !== undefined && groups.includes(group))) return;
  const role = request.caller?.account.role ?? "";
  throw new ForbiddenError(role, `task:edit in the group ${group ?? "(none given)"}`);
}

/** Starting a task while creating it needs what starting it later needs. */
function checkStart(request: FastifyRequest): void {
  if (rightsOf(request).permissions.includes("task:operate")) return;
  throw new ForbiddenError(callerOf(request).account.role, "task:operate");
}

/** docs/reference/metrics.md lists them. */
function addMetrics(registry: Registry, cluster: Cluster): void {
  new Gauge({
    name: "ropeway_tasks",
    help: "Tasks by status.",
    labelNames: ["status"],
    registers: [registry],
    async collect() {
      for (const status of TASK_STATUSES) {
        const found = await cluster.tasks.count(status).catch(() => undefined);
        if (found === undefined) return; // while the store is unreachable, they keep their values
        this.set({ status }, found);
      }
    },
  });
}
