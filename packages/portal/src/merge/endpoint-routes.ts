/** /api/merge/endpoints: health, pause, limits and secrets of endpoints. */
import type { Endpoints } from "@ropeway/merge";
import { z } from "zod";
import type { PortalApp } from "../part.ts";
import { noteEndpoint } from "./audit-subject.ts";
import { EndpointPage } from "./merge-contract.ts";
import { NO_BODY, operate, Paging, Url, view } from "./route-schemas.ts";
import { endpointView } from "./views.ts";

const Disabling = Url.extend({
  reason: z.string().min(1).max(200).default("by an operator"),
});
const Limiting = Url.extend({
  ratePerSecond: z.number().min(0.000_001).max(1_000_000).optional(),
  concurrency: z.int().min(1).max(1_000_000).optional(),
});
const Rotating = Url.extend({
  graceMs: z
    .int()
    .min(0)
    .max(31_536_000_000)
    .default(86_400_000)
    .describe("How long the secret before still signs."),
});

export function addEndpoints(app: PortalApp, endpoints: Endpoints): void {
  app.get(
    "/api/merge/endpoints",
    {
      ...view,
      schema: {
        summary: "List endpoints and their health, last used first",
        querystring: Paging,
        response: { 200: EndpointPage },
      },
    },
    async (request) => {
      const { items, cursor } = await endpoints.list(request.query);
      return { items: items.map(endpointView), cursor: cursor ?? null };
    },
  );
  addChange(app, "enable", {
    ...{ summary: "Enable an endpoint", body: Url },
    change: ({ url }) => endpoints.enable(url),
  });
  addChange(app, "pause", {
    ...{ summary: "Pause an endpoint", body: Url },
    description: "Batches that come due for it wait until it is enabled.",
    change: ({ url }) => endpoints.pause(url),
  });
  addChange(app, "disable", {
    ...{ summary: "Disable an endpoint", body: Disabling },
    description: "Batches that come due for it become dead letters.",
    change: ({ url, reason }) => endpoints.disable(url, reason),
  });
  addChange(app, "limit", {
    ...{ summary: "Limit the rate and concurrency of an endpoint", body: Limiting },
    description: "A limit that is left out is removed.",
    change: ({ url, ...limits }) => endpoints.limit(url, limits),
  });
  addChange(app, "remove-secrets", {
    ...{ summary: "Remove an endpoint's own secrets", body: Url },
    change: ({ url }) => endpoints.removeSecrets(url),
  });
  app.post(
    "/api/merge/endpoints/rotate-secret",
    {
      ...operate,
      schema: {
        summary: "Give an endpoint a new signing secret",
        description: "The response is the only place where the secret is shown.",
        body: Rotating,
        response: { 200: z.object({ secret: z.string() }) },
      },
    },
    async (request) => {
      const { url, graceMs } = request.body;
      noteEndpoint(request, url);
      return { secret: await endpoints.rotateSecret(url, { graceMs }) };
    },
  );
}

/** A route that changes one endpoint and has nothing to say about it. */
function addChange<Body extends z.ZodType<{ readonly url: string }>>(
  app: PortalApp,
  verb: string,
  route: {
    readonly summary: string;
    readonly description?: string;
    readonly body: Body;
    change(body: z.output<Body>): Promise<void>;
  },
): void {
  const { change, ...schema } = route;
  app.post(
    `/api/merge/endpoints/${verb}`,
    { ...operate, schema: { ...schema, response: { 204: NO_BODY } } },
    async (request, reply) => {
      const body = request.body as z.output<Body>;
      noteEndpoint(request, body.url);
      await change(body);
      return reply.code(204).send();
    },
  );
}
