/**
 * One OpenTelemetry span per request, a child of the caller's if it sent a traceparent. What a handler
 * does runs inside it, so that the spans of our libraries become its children. Without an SDK all of
 * this does nothing.
 *
 * A body is read by events of the socket, which know nothing of the request's context: it is entered
 * once for the hooks and once more for the handler.
 */
import { type Context, context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { contextOf, tracerOf } from "@ropeway/core/internal";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { PortalApp } from "../part.ts";
import { pathOf } from "./problems.ts";

/** Gives every request of the app its span. */
export function traceRequests(app: PortalApp): void {
  const contexts = new WeakMap<FastifyRequest, Context>();
  app.addHook("onRequest", (request, reply, next) => {
    const started = startSpan(request, reply);
    contexts.set(request, started);
    context.with(started, next);
  });
  app.addHook("preHandler", (request, _reply, next) => {
    context.with(contexts.get(request) ?? context.active(), next);
  });
}

function startSpan(request: FastifyRequest, reply: FastifyReply): Context {
  const { method, headers } = request;
  const route = request.is404 ? undefined : request.routeOptions.url;
  const given = headers.traceparent;
  const parent = contextOf(typeof given === "string" ? given : undefined);
  const span = tracerOf("portal").startSpan(
    route === undefined ? method : `${method} ${route}`,
    {
      kind: SpanKind.SERVER,
      attributes: {
        "http.request.method": method,
        "url.path": pathOf(request.url),
        ...(route === undefined ? {} : { "http.route": route }),
        "ropeway.request_id": request.id,
      },
    },
    parent,
  );
  reply.raw.once("close", () => {
    span.setAttribute("http.response.status_code", reply.raw.statusCode);
    if (reply.raw.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end();
  });
  return trace.setSpan(parent, span);
}
