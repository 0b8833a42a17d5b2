/**
 * Records every request when it has ended: one log line and one observation. "Over" is the
 * moment its response is closed, which also comes when the client gave up; then the status is 499,
 * the usual status for a client that has disconnected.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import { addressOf } from "../access/place.ts";
import type { PortalMetrics } from "../metrics/portal-metrics.ts";
import { loggedPath } from "./logged-path.ts";

const CLIENT_GONE = 499;

/** Follows a request to its end. */
export function follow(request: FastifyRequest, reply: FastifyReply, metrics: PortalMetrics): void {
  const began = performance.now();
  metrics.requestBegan();
  reply.raw.once("close", () => {
    const ms = performance.now() - began;
    const status = reply.raw.writableFinished ? reply.raw.statusCode : CLIENT_GONE;
    // The route's template, because the number of paths is unbounded; undefined if no route was found.
    const route = request.is404 ? "unknown" : (request.routeOptions.url ?? "unknown");
    const { method } = request;
    const isStream = String(reply.getHeader("content-type")).startsWith("text/event-stream");
    metrics.requestEnded(isStream ? undefined : { method, route, status, seconds: ms / 1_000 });
    request.log.info(
      {
        method,
        path: loggedPath(request.url),
        route,
        status,
        ms: Math.round(ms * 10) / 10,
        user: request.caller?.account.username,
        from: addressOf(request),
      },
      "request",
    );
  });
}
