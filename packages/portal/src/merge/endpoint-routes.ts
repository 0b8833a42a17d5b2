/** /api/merge/endpoints: health, pause, limits and secrets of endpoints. */
import type { Endpoints } from "@ropeway/merge";
import { z } from "zod";
import type { PortalApp } from "../part.ts";
import { EndpointPage } from "./merge-contract.ts";
import { NO_BODY, operate, Paging, Url, view } from "./route-schemas.ts";
import { endpointView } from "./views.ts";

const Disabling = Url.extend({
  reason: z.string().min(1).max(200).default("disabled by an operator"),
});
const Limiting = Url.extend({
  ratePerSecond: z.number().positive().max(1_000_000).optional(),
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
  app.post(
    "/api/merge/endpoints/enable",
    {
      ...operate,
      schema: { summary: "Call an endpoint again", body: Url, response: { 204: NO_BODY } },
    },
    async (request, reply) => {
      await endpoints.enable(request.body.url);
      return reply.code(204).send();
    },
  );
  app.post(
    "/api/merge/endpoints/pause",
    {
      ...operate,
      schema: {
        summary: "Pause an endpoint",
        description: "Batches that come due for it wait until it is enabled.",
        body: Url,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      await endpoints.pause(request.body.url);
      return reply.code(204).send();
    },
  );
  app.post(
    "/api/merge/endpoints/disable",
    {
      ...operate,
      schema: {
        summary: "Disable an endpoint",
        description: "Batches that come due for it become dead letters.",
        body: Disabling,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      await endpoints.disable(request.body.url, request.body.reason);
      return reply.code(204).send();
    },
  );
  addFlowAndSecrets(app, endpoints);
}

function addFlowAndSecrets(app: PortalApp, endpoints: Endpoints): void {
  app.post(
    "/api/merge/endpoints/limit",
    {
      ...operate,
      schema: {
        summary: "Limit the rate and concurrency of an endpoint",
        description: "A limit that is left out is removed.",
        body: Limiting,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      const { url, ...limits } = request.body;
      await endpoints.limit(url, limits);
      return reply.code(204).send();
    },
  );
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
      return { secret: await endpoints.rotateSecret(url, { graceMs }) };
    },
  );
  app.post(
    "/api/merge/endpoints/remove-secrets",
    {
      ...operate,
      schema: {
        summary: "Remove an endpoint's own secrets",
        body: Url,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      await endpoints.removeSecrets(request.body.url);
      return reply.code(204).send();
    },
  );
}
