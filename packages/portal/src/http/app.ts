/**
 * Builds the Fastify of a portal: everything that applies to all routes is set up here, and parts only add
 * routes. The order of hooks for a request:
 *
 *   request id -> span -> headers, log and metrics -> guard (host, origin, caller, permission) -> room for
 *   the body -> body -> schema -> guard again, if the body was late
 *   -> the route's handler -> response; an error on the way becomes a problem+json
 */
import { ConnectionLostError, type Logger } from "@ropeway/core";
import fastify, {
  type FastifyReply,
  type FastifyRequest,
  LogController,
  type RouteOptions,
} from "fastify";
import { serializerCompiler, type ZodTypeProvider } from "fastify-type-provider-zod";
import { z } from "zod";
import type { Auditor } from "../access/auditor.ts";
import type { Guard } from "../access/guard.ts";
import { BodyTooLargeError, InvalidUrlError, RouteNotFoundError } from "../errors.ts";
import type { Pulse } from "../health/pulse.ts";
import type { PortalMetrics } from "../metrics/portal-metrics.ts";
import { describeApi } from "../openapi/description.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import type { EventStreams } from "../sse.ts";
import { BodyBudget } from "./body-budget.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { follow } from "./exchange.ts";
import { FailureLog } from "./failure-log.ts";
import { translate } from "./framework-error.ts";
import { pageBudget } from "./page-budget.ts";
import { boundConnections, portOptions } from "./port-options.ts";
import { pathOf, problemOf } from "./problems.ts";
import { REQUEST_ID, requestIds } from "./request-id.ts";
import { fastifyLogger } from "./request-logger.ts";
import type { RouteTable } from "./route-table.ts";
import { SECURITY_HEADERS } from "./security-headers.ts";
import { traceRequests } from "./span.ts";
import { validatorCompiler } from "./validation.ts";

/** In a path; the default of 100 would make longer names "not found". */
const LONGEST_PARAMETER = 2_048;

/** What an app is built from. */
export interface AppPlan {
  readonly parts: readonly PortalPart[];
  readonly guard: Guard;
  /** Runs when the body has been read. */
  readonly lateGuard: Guard;
  readonly auditor: Pick<Auditor, "running" | "answered">;
  readonly routes: RouteTable;
  readonly metrics: PortalMetrics;
  readonly streams: EventStreams;
  readonly pulse: Pulse;
  readonly logger: Logger;
  readonly bodyLimit: number;
  readonly requestTimeoutMs: number;
  readonly trustProxy: boolean | string | string[];
}

/** Builds the app with the routes of every part, ready to listen. */
export async function buildApp(plan: AppPlan): Promise<PortalApp> {
  const app = newApp(plan);
  const bodies = new BodyBudget("the portal");
  const pages = pageBudget("the portal");
  const failures = new FailureLog();
  boundConnections(app.server);
  app.decorate("eventStreams", plan.streams);
  app.decorateRequest("caller", null);
  app.decorateRequest("rights", null);
  app.decorateRequest("subject", "");
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  app.removeContentTypeParser("text/plain"); // JSON only; a part may add a parser of its own
  app.setErrorHandler((error, request, reply) => {
    const translated = translate(error, request);
    // Fastify would close the connection before the client has sent its body, and most clients would report that
    // and not the response. Node reads the rest of the body and drops it.
    if (translated instanceof BodyTooLargeError) reply.removeHeader("connection");
    // The pulse has logged it once.
    const isLogged = plan.pulse.silent && translated instanceof ConnectionLostError;
    const line = isLogged ? undefined : failures.line(problemOf(translated, request).body);
    if (line !== undefined) request.log.error({ err: translated, ...line }, "request failed");
    return send(translated, request, reply);
  });
  app.setNotFoundHandler((request) => {
    throw new RouteNotFoundError(request.method, pathOf(request.url));
  });
  traceRequests(app);
  app.addHook("onRequest", async (request, reply) => {
    greet(request, reply);
    follow(request, reply, plan.metrics);
    await plan.pulse.bounded(plan.guard(request, reply), () => reply.sent);
    // The client went away meanwhile. Nobody gets a response, and no event will say when the request has ended.
    if (reply.raw.destroyed) return reply.hijack();
    // Here and not in the handler, which runs after the body was read.
    if (request.is404) throw new RouteNotFoundError(request.method, pathOf(request.url));
    const { bodyLimit = 0, config } = request.routeOptions;
    const held = { response: reply.raw, owner: request.caller?.account.username };
    const refusal =
      bodies.refusal({ ...held, headers: request.headers, limit: bodyLimit }) ??
      (config.pageBytes && pages.refusal({ ...held, bytes: config.pageBytes }));
    if (refusal) throw refusal;
    return undefined;
  });
  app.addHook("preHandler", async (request, reply) => {
    await plan.pulse.bounded(plan.lateGuard(request, reply), () => reply.sent);
    plan.auditor.running(request);
  });
  app.addHook("onSend", async (request, reply) => plan.auditor.answered(request, reply.statusCode));
  await describeApi(app, plan.parts);
  app.addHook("onRoute", (route) => {
    plan.routes.add(route);
    bound(route, { pulse: plan.pulse, budgets: [bodies, pages] });
    refuseUnknownQuery(route);
  });
  for (const part of plan.parts) await addPart(app, part);
  const noMoreParts = app.withTypeProvider<ZodTypeProvider>();
  plan.routes.refuseOtherMethods(noMoreParts);
  await app.ready();
  return app;
}

function newApp({ logger, bodyLimit, trustProxy, requestTimeoutMs }: AppPlan): PortalApp {
  return fastify({
    ...portOptions(requestTimeoutMs),
    loggerInstance: fastifyLogger(logger),
    logController: new LogController({
      disableRequestLogging: true, // exchange.ts writes one line that says more
      requestIdLogLabel: "requestId",
    }),
    genReqId: requestIds(),
    bodyLimit,
    trustProxy,
    routerOptions: { maxParamLength: LONGEST_PARAMETER },
    return503OnClosing: false, // a request that still arrives gets a response and `connection: close`
    onProtoPoisoning: "error",
    onConstructorPoisoning: "error",
    frameworkErrors: (error, request, reply) => {
      greet(request, reply); // no hook runs for these
      send(new InvalidUrlError(request.raw.url ?? "", error), request, reply);
    },
  }).withTypeProvider<ZodTypeProvider>();
}

/** What bounds a handler. */
interface HandlerBounds {
  readonly pulse: Pulse;
  readonly budgets: readonly Pick<ByteBudget, "during">[];
}

/** Ends requests that wait for a Redis that hangs, and counts their bytes for as long as their handler runs. */
function bound(route: RouteOptions, { pulse, budgets }: HandlerBounds): void {
  if (route.config?.ownBound === true) return;
  const { handler } = route;
  route.handler = function (request, reply) {
    const result: unknown = handler.call(this, request, reply);
    // A reply is a thenable too, one that lasts as long as the response.
    if (!(result instanceof Promise)) return result;
    for (const budget of budgets) budget.during(reply.raw, result);
    return pulse.bounded(result, () => reply.sent);
  };
}

/** A misspelt filter or limit must not look like success. Probes and pages of the portal accept any query. */
function refuseUnknownQuery({ url, schema }: RouteOptions): void {
  if (url.startsWith("/api/") && schema?.querystring instanceof z.ZodObject) {
    schema.querystring = schema.querystring.strict();
  }
}

/** A part's hooks, parsers and decorators stay its own: Fastify encapsulates what is registered. */
async function addPart(app: PortalApp, part: PortalPart): Promise<void> {
  await app.register(async (scope) => {
    scope.addHook("onRoute", (route) => {
      route.schema = { tags: [part.name], ...route.schema };
    });
    await part.routes?.(scope.withTypeProvider<ZodTypeProvider>());
  });
}

/** The headers of every response. */
function greet(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(SECURITY_HEADERS).header(REQUEST_ID, request.id);
}

function send(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { body, headers } = problemOf(error, request);
  return reply
    .code(body.status)
    .headers(headers)
    .type("application/problem+json")
    .send(JSON.stringify(body));
}
