/** The merge queue in the portal: keys, dead letters, endpoints, pause, and the v3 paths themselves. */
import { isUtf8 } from "node:buffer";
import {
  type DeadLetter,
  type Endpoint,
  Inspector,
  type Item,
  type MergeQueue,
  type PendingKey,
} from "@ropeway/merge";
import { AddressGuard } from "@ropeway/merge/internal";
import { Gauge, type Registry } from "prom-client";
import { z } from "zod";
import { needs } from "../access/permission.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import {
  DeadLetterPage,
  type DeadLetterView,
  EndpointPage,
  type EndpointView,
  type QueueItem,
  type QueueKey,
  QueueKeyDetail,
  QueueKeyPage,
  QueueStats,
} from "./queue-contract.ts";
import { partsOf, V3Desk } from "./v3-desk.ts";
import { QUEUE_PATH } from "./v3-request.ts";

/** What the part is given. */
export interface QueuePartOptions {
  /** What may be called besides public addresses. */
  readonly targets?: readonly string[];
}

const view = { config: needs("queue:view") };
const operate = { config: needs("queue:operate") };
const push = { config: needs("queue:push") };

const Paging = z.object({
  cursor: z.string().regex(/^\d+$/).optional(),
  limit: z.coerce.number().int().min(1).max(500).default(50),
});
const Searching = Paging.extend({ search: z.string().max(1_000).optional() });
const LetterPaging = Paging.extend({ key: z.string().max(4_096).optional() });
const Key = z.object({ key: z.string().min(1).max(4_096) });
const Url = z.object({ url: z.url({ protocol: /^https?$/ }) });
const Id = z.object({ id: z.string().regex(/^[\w-]{1,64}$/) });
const Count = z.object({ items: z.int() });
const Removal = z.object({ deleted: z.int(), sending: z.int() });
const Resumed = z.object({ wasPaused: z.boolean() });
const NO_BODY = z.undefined().describe("Done.");

/** The part for a merge queue. */
export function queuePart(queue: MergeQueue, options: QueuePartOptions = {}): PortalPart {
  const inspector = new Inspector(queue);
  const desk = new V3Desk(queue, new AddressGuard(options.targets));
  return {
    name: "queue",
    about: {
      en: "The timed merge queue: what waits, what failed, and how the receivers are.",
      zh: "定时合并队列：等待中的、失败的，以及各接收方的状况。",
    },
    permissions: {
      "queue:view": { least: "viewer", means: "See keys, items, dead letters and endpoints." },
      "queue:push": { least: "operator", means: "Push items and delete what is queued (v3)." },
      "queue:operate": {
        least: "operator",
        means: "Send now, delete, replay, pause, enable and disable endpoints.",
      },
    },
    routes(app) {
      addKeys(app, inspector);
      addLetters(app, inspector);
      addEndpoints(app, inspector);
      addPause(app, inspector);
      return addV3(app, desk);
    },
    metrics: (registry) => addMetrics(registry, inspector),
  };
}

function addKeys(app: PortalApp, inspector: Inspector): void {
  app.get(
    "/api/queue/stats",
    { ...view, schema: { summary: "The queue in numbers", response: { 200: QueueStats } } },
    () => inspector.stats(),
  );
  app.get(
    "/api/queue/keys",
    {
      ...view,
      schema: {
        summary: "Keys that wait, soonest first",
        description: "With a search in no order, and pages may be short or empty before the end.",
        querystring: Searching,
        response: { 200: QueueKeyPage },
      },
    },
    async (request) => {
      const { entries, cursor } = await inspector.list(request.query);
      return { entries: entries.map(keyView), cursor: cursor ?? null };
    },
  );
  app.get(
    "/api/queue/key",
    {
      ...view,
      schema: {
        summary: "One key and its oldest items",
        querystring: Key,
        response: { 200: QueueKeyDetail },
      },
    },
    async (request) => {
      const peeked = await inspector.peek(request.query.key);
      const { data, oldest } = peeked;
      return { ...keyView(peeked), data: { ...data }, oldest: oldest.map(itemView) };
    },
  );
  app.post(
    "/api/queue/key/send-now",
    { ...operate, schema: { summary: "Fire a key now", body: Key, response: { 200: Count } } },
    async (request) => ({ items: await inspector.sendNow(request.body.key) }),
  );
  app.post(
    "/api/queue/key/pause",
    {
      ...operate,
      schema: {
        summary: "Keep a key from firing until resumed",
        description: "It may be paused before it has items; pushes are still accepted.",
        body: Key,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      await inspector.pause(request.body.key);
      return reply.code(204).send();
    },
  );
  app.post(
    "/api/queue/key/resume",
    {
      ...operate,
      schema: { summary: "Let a key fire again", body: Key, response: { 200: Resumed } },
    },
    async (request) => ({ wasPaused: await inspector.resume(request.body.key) }),
  );
  app.delete(
    "/api/queue/key",
    {
      ...operate,
      schema: {
        summary: "Delete all that is queued under a key",
        querystring: Key,
        response: { 200: Removal },
      },
    },
    (request) => inspector.remove(request.query.key),
  );
}

function addLetters(app: PortalApp, inspector: Inspector): void {
  app.get(
    "/api/queue/letters",
    {
      ...view,
      schema: {
        summary: "Dead letters, newest first",
        querystring: LetterPaging,
        response: { 200: DeadLetterPage },
      },
    },
    async (request) => {
      const { key, ...paging } = request.query;
      const { entries, cursor } = await inspector.letters(
        key === undefined ? paging : { ...paging, key },
      );
      return { entries: entries.map(letterView), cursor: cursor ?? null };
    },
  );
  app.get(
    "/api/queue/letters/:id",
    {
      ...view,
      schema: {
        summary: "The items of a dead letter",
        params: Id,
        response: { 200: z.object({ oldest: z.array(z.custom<QueueItem>()) }) },
      },
    },
    async (request) => {
      const items = await inspector.letterItems(request.params.id);
      return { oldest: items.map(itemView) };
    },
  );
  app.post(
    "/api/queue/letters/:id/replay",
    {
      ...operate,
      schema: { summary: "Bring a dead letter back", params: Id, response: { 200: Count } },
    },
    async (request) => ({ items: await inspector.replay(request.params.id) }),
  );
  app.delete(
    "/api/queue/letters/:id",
    {
      ...operate,
      schema: { summary: "Delete a dead letter for good", params: Id, response: { 200: Count } },
    },
    async (request) => ({ items: await inspector.discard(request.params.id) }),
  );
}

function addEndpoints(app: PortalApp, inspector: Inspector): void {
  app.get(
    "/api/queue/endpoints",
    {
      ...view,
      schema: {
        summary: "Targets and their health, last used first",
        querystring: Paging,
        response: { 200: EndpointPage },
      },
    },
    async (request) => {
      const { entries, cursor } = await inspector.endpoints(request.query);
      return { entries: entries.map(endpointView), cursor: cursor ?? null };
    },
  );
  app.post(
    "/api/queue/endpoints/enable",
    {
      ...operate,
      schema: { summary: "Call a target again", body: Url, response: { 204: NO_BODY } },
    },
    async (request, reply) => {
      await inspector.enable(request.body.url);
      return reply.code(204).send();
    },
  );
  app.post(
    "/api/queue/endpoints/pause",
    {
      ...operate,
      schema: {
        summary: "Let what comes due for a target wait",
        description: "Until it is enabled; then it fires within seconds.",
        body: Url,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      await inspector.pauseEndpoint(request.body.url);
      return reply.code(204).send();
    },
  );
  app.post(
    "/api/queue/endpoints/disable",
    {
      ...operate,
      schema: {
        summary: "Stop calling a target",
        description: "What comes due for it becomes a dead letter.",
        body: Url.extend({ reason: z.string().min(1).max(200).default("disabled by an operator") }),
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      await inspector.disable(request.body.url, request.body.reason);
      return reply.code(204).send();
    },
  );
}

function addPause(app: PortalApp, inspector: Inspector): void {
  app.post(
    "/api/queue/pause",
    {
      ...operate,
      schema: { summary: "Fire nothing until resumed", response: { 204: NO_BODY } },
    },
    async (_request, reply) => {
      await inspector.pause();
      return reply.code(204).send();
    },
  );
  app.post(
    "/api/queue/resume",
    { ...operate, schema: { summary: "End a pause", response: { 204: NO_BODY } } },
    async (_request, reply) => {
      await inspector.resume();
      return reply.code(204).send();
    },
  );
}

/** The paths of the queue's own port, for callers with an account. */
async function addV3(app: PortalApp, desk: V3Desk): Promise<void> {
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) =>
      done(null, body),
    );
    scope.post(
      `${QUEUE_PATH}*`,
      { ...push, schema: { summary: "Push an item (v3)" } },
      async (request, reply) => reply.code(202).send(await desk.push(partsOf(request))),
    );
    scope.delete(
      `${QUEUE_PATH}*`,
      { ...push, schema: { summary: "Delete what is queued (v3)" } },
      (request) => desk.remove(partsOf(request)),
    );
    scope.get(
      `${QUEUE_PATH}*`,
      { ...view, schema: { summary: "See what is queued (v3)" } },
      (request) => desk.peek(partsOf(request)),
    );
  });
}

/** The gauges that /metrics shows; docs/reference/metrics.md lists them. */
export const QUEUE_GAUGES = {
  keys: ["ropeway_merge_keys", "Keys of the merge queue with something in them."],
  due: ["ropeway_merge_due_keys", "Keys that are due and not taken yet."],
  deadLetters: ["ropeway_merge_dead_letters", "Batches that were given up."],
  oldestDueMs: ["ropeway_merge_oldest_due_seconds", "How long the oldest due key has been due."],
} as const;

function addMetrics(registry: Registry, inspector: Inspector): void {
  const registers = [registry];
  const { keys, ...others } = QUEUE_GAUGES;
  const rest = Object.entries(others).map(([field, [name, help]]) => {
    return { field, gauge: new Gauge({ name, help, registers }) };
  });
  new Gauge({
    name: keys[0],
    help: keys[1],
    registers,
    async collect() {
      // One look serves them all; a Redis that is away leaves them as they were.
      const stats = await inspector.stats().catch(() => undefined);
      if (stats === undefined) return;
      this.set(stats.keys);
      for (const { field, gauge } of rest) {
        const value = Number(stats[field as keyof typeof stats]);
        gauge.set(field === "oldestDueMs" ? value / 1_000 : value);
      }
    },
  });
}

function keyView(pending: PendingKey): QueueKey {
  const { key, target, ontime, items, state, paused, attempts, error } = pending;
  return {
    ...{ key, items, state, paused, attempts },
    target: target === undefined ? null : { ...target },
    ontime: ontime ?? null,
    error: error ?? null,
  };
}

function itemView({ id, pushedAt, contentType = "application/json", body }: Item): QueueItem {
  const encoding = isUtf8(body) ? "utf8" : "base64";
  return { id, pushedAt: pushedAt / 1_000, contentType, body: body.toString(encoding), encoding };
}

function letterView({ target, ...letter }: DeadLetter): DeadLetterView {
  return { ...letter, target: target === undefined ? null : { ...target } };
}

function endpointView({ heldUntil, disabled, openUntil, ...rest }: Endpoint): EndpointView {
  return {
    ...rest,
    heldUntil: heldUntil ?? null,
    disabled: disabled ?? null,
    openUntil: openUntil ?? null,
  };
}
