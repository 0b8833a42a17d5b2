/** /api/merge/attempts and /api/merge/events: the attempt log, as pages and live. */
import type { Attempts } from "@ropeway/merge";
import { z } from "zod";
import type { PortalApp } from "../part.ts";
import { serveEvents } from "../sse.ts";
import { AttemptPage } from "./merge-contract.ts";
import { Paging, view } from "./route-schemas.ts";
import { attemptView } from "./views.ts";

const Filter = z.object({
  key: z.string().max(4_096).optional().describe("Only of this key."),
  url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe("Only at this endpoint."),
  result: z
    .enum(["delivered", "partial", "invalid", "retry", "dead"])
    .optional()
    .describe("Only with this result."),
});

const Resuming = z.object({
  "last-event-id": z
    .string()
    .regex(/^(\d{1,15}-\d{1,15})?$/)
    .optional()
    .describe("The id of the last event that was received, such as 1700000000000-0."),
});

export function addAttempts(app: PortalApp, attempts: Attempts): void {
  app.get(
    "/api/merge/attempts",
    {
      ...view,
      schema: {
        summary: "List the last attempts to deliver, newest first",
        description: "The log keeps about 10,000. With a filter a page may be short.",
        querystring: Filter.extend(Paging.shape),
        response: { 200: AttemptPage },
      },
    },
    async (request) => {
      const { items, cursor } = await attempts.list(request.query);
      return { items: items.map(attemptView), cursor: cursor ?? null };
    },
  );
  app.get(
    "/api/merge/events",
    {
      ...view,
      schema: {
        summary: "Follow delivery attempts",
        description:
          "Server-sent events. The type is the attempt's result, the id its entry in the log, the data the attempt as JSON. A client that sends Last-Event-ID goes on behind that entry.",
        querystring: Filter,
        headers: Resuming,
        produces: ["text/event-stream"],
      },
    },
    (request, reply) =>
      serveEvents(reply, async (stream) => {
        const { signal, lastEventId: after } = stream;
        for await (const attempt of attempts.follow({ ...request.query, after, signal })) {
          const data = attemptView(attempt);
          await stream.send({ id: attempt.entry, event: attempt.result, data });
        }
      }),
  );
}
