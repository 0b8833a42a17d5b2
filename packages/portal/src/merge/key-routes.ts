/** /api/merge: numbers, keys, pause. */
import type { Inspector } from "@ropeway/merge";
import { z } from "zod";
import { noteSubject } from "../access/subject.ts";
import type { PortalApp } from "../part.ts";
import { noteMergeKey } from "./audit-subject.ts";
import { MergeKeyDetail, MergeKeyPage, MergeStatsView } from "./merge-contract.ts";
import { Count, Key, NO_BODY, operate, Paging, view, viewItems } from "./route-schemas.ts";
import { itemView, keyView } from "./views.ts";

const Searching = Paging.extend({ search: z.string().max(1_000).optional() });
const Removal = z.object({ deleted: z.int(), sending: z.int() });
const Resumed = z.object({ wasPaused: z.boolean() });

export function addKeys(app: PortalApp, inspector: Inspector): void {
  addViews(app, inspector);
  addPause(app, inspector);
  app.post(
    "/api/merge/key/send-now",
    { ...operate, schema: { summary: "Deliver a key now", body: Key, response: { 200: Count } } },
    async (request) => {
      noteMergeKey(request, request.body.key);
      return { items: await inspector.sendNow(request.body.key) };
    },
  );
  app.delete(
    "/api/merge/key",
    {
      ...operate,
      schema: {
        summary: "Delete everything that is queued under a key",
        querystring: Key,
        response: { 200: Removal },
      },
    },
    (request) => {
      noteMergeKey(request, request.query.key);
      return inspector.remove(request.query.key);
    },
  );
}

function addViews(app: PortalApp, inspector: Inspector): void {
  app.get(
    "/api/merge/stats",
    {
      ...view,
      schema: { summary: "Show statistics of the queue", response: { 200: MergeStatsView } },
    },
    () => inspector.stats(),
  );
  app.get(
    "/api/merge/keys",
    {
      ...view,
      schema: {
        summary: "List keys, soonest first",
        description: "With a search they have no order, and a page may be short or empty.",
        querystring: Searching,
        response: { 200: MergeKeyPage },
      },
    },
    async (request) => {
      const { items, cursor } = await inspector.list(request.query);
      return { items: items.map(keyView), cursor: cursor ?? null };
    },
  );
  app.get(
    "/api/merge/key",
    {
      ...viewItems,
      schema: {
        summary: "Show a key and its oldest items",
        description: "A page has at most 256 KiB of bodies; a longer body is cut.",
        querystring: Key.extend(Paging.shape),
        response: { 200: MergeKeyDetail },
      },
    },
    async (request) => {
      const { key, ...paging } = request.query;
      const peeked = await inspector.peek(key, paging);
      const { data, oldest, cursor = null } = peeked;
      return { ...keyView(peeked), data: { ...data }, oldest: oldest.map(itemView), cursor };
    },
  );
}

function addPause(app: PortalApp, inspector: Inspector): void {
  app.post(
    "/api/merge/key/pause",
    {
      ...operate,
      schema: {
        summary: "Pause a key",
        description: "It may be paused before it has items. Pushes are still accepted.",
        body: Key,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      noteMergeKey(request, request.body.key);
      await inspector.pause(request.body.key);
      return reply.code(204).send();
    },
  );
  app.post(
    "/api/merge/key/resume",
    { ...operate, schema: { summary: "Resume a key", body: Key, response: { 200: Resumed } } },
    async (request) => {
      noteMergeKey(request, request.body.key);
      return { wasPaused: await inspector.resume(request.body.key) };
    },
  );
  app.post(
    "/api/merge/pause",
    { ...operate, schema: { summary: "Pause everything", response: { 204: NO_BODY } } },
    async (request, reply) => {
      noteSubject(request, "all keys");
      await inspector.pause();
      return reply.code(204).send();
    },
  );
  app.post(
    "/api/merge/resume",
    { ...operate, schema: { summary: "Resume everything", response: { 200: Resumed } } },
    async (request) => {
      noteSubject(request, "all keys");
      return { wasPaused: await inspector.resume() };
    },
  );
}
