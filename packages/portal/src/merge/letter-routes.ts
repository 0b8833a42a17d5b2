/** /api/merge/letters: dead letters. */
import type { DeadLetters } from "@ropeway/merge";
import { z } from "zod";
import type { PortalApp } from "../part.ts";
import { DeadLetterPage, DeadLetterView, MergeItemPage } from "./merge-contract.ts";
import { Count, Id, operate, Paging, view, viewItems } from "./route-schemas.ts";
import { itemView, letterView } from "./views.ts";

const Filter = z.object({
  key: z.string().max(4_096).optional().describe("Only of this key."),
  url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe("Only of this endpoint."),
  reason: z.string().max(1_000).optional().describe("Only with this in their reason."),
  since: z.iso.datetime().optional().describe("Only given up then or later."),
  until: z.iso.datetime().optional().describe("Only given up then or earlier."),
});
const Totals = z.object({ letters: z.int(), items: z.int() });

export function addLetters(app: PortalApp, letters: DeadLetters): void {
  app.get(
    "/api/merge/letters",
    {
      ...view,
      schema: {
        summary: "List dead letters, newest first",
        description: "With a filter a page may be short or empty before the last.",
        querystring: Filter.extend(Paging.shape),
        response: { 200: DeadLetterPage },
      },
    },
    async (request) => {
      const { cursor, limit } = request.query;
      const page = await letters.list({ ...filterOf(request.query), cursor, limit });
      return { items: page.items.map(letterView), cursor: page.cursor ?? null };
    },
  );
  app.post(
    "/api/merge/letters/replay",
    {
      ...operate,
      schema: {
        summary: "Replay every dead letter that matches, oldest first",
        body: Filter.strict(),
        response: { 200: Totals },
      },
    },
    (request) => letters.replayAll(filterOf(request.body)),
  );
  app.post(
    "/api/merge/letters/discard",
    {
      ...operate,
      schema: {
        summary: "Delete every dead letter that matches",
        body: Filter.strict(),
        response: { 200: Totals },
      },
    },
    (request) => letters.discardAll(filterOf(request.body)),
  );
  addLetter(app, letters);
}

function addLetter(app: PortalApp, letters: DeadLetters): void {
  app.get(
    "/api/merge/letters/:id",
    {
      ...view,
      schema: { summary: "Show a dead letter", params: Id, response: { 200: DeadLetterView } },
    },
    async (request) => letterView(await letters.get(request.params.id)),
  );
  app.get(
    "/api/merge/letters/:id/items",
    {
      ...viewItems,
      schema: {
        summary: "List the items of a dead letter, oldest first",
        description: "A page has at most 256 KiB of bodies; a longer body is cut.",
        params: Id,
        querystring: Paging,
        response: { 200: MergeItemPage },
      },
    },
    async (request) => {
      const { items, cursor } = await letters.items(request.params.id, request.query);
      return { items: items.map(itemView), cursor: cursor ?? null };
    },
  );
  app.post(
    "/api/merge/letters/:id/replay",
    {
      ...operate,
      schema: { summary: "Replay a dead letter", params: Id, response: { 200: Count } },
    },
    async (request) => ({ items: await letters.replay(request.params.id) }),
  );
  app.delete(
    "/api/merge/letters/:id",
    {
      ...operate,
      schema: { summary: "Delete a dead letter", params: Id, response: { 200: Count } },
    },
    async (request) => ({ items: await letters.discard(request.params.id) }),
  );
}

function filterOf({ key, url, reason, since, until }: z.output<typeof Filter>) {
  const ms = (time: string | undefined) => (time === undefined ? undefined : Date.parse(time));
  return { key, url, reason, since: ms(since), until: ms(until) };
}
