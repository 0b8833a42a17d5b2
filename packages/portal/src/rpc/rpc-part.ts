/**
 * Calls in the portal: the services and their workers, and a JSON-RPC 2.0 gateway with live progress and
 * streams.
 */

import type { Redis } from "@ropeway/core";
import { requireRedis } from "@ropeway/core/internal";
import { createClient, listNamespaces, type RpcClient, type ServiceInfo } from "@ropeway/rpc";
import type { FastifyReply } from "fastify";
import { Gauge, type Registry } from "prom-client";
import { z } from "zod";
import { needs, type PermissionSpecs } from "../access/permission.ts";
import { UnknownResourceError } from "../errors.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import { Pool } from "../pool.ts";
import { type EventStream, serveEvents } from "../sse.ts";
import {
  answerMessage,
  errorOf,
  type GatewayRequest,
  isCallable,
  isTold,
  readRequest,
} from "./gateway.ts";
import { RpcNamespaces, type RpcService, RpcServices } from "./rpc-contract.ts";

/** What the part is given. */
export interface RpcPartOptions {
  /** How long a call through the gateway may take. @default 30000 */
  readonly timeoutMs?: number;
}

/** The clients of the gateway, by namespace. */
type Clients = Pool<RpcClient>;
/** Each that has made a call holds one connection to Redis. */
const MOST_CLIENTS = 32;

const view = { config: needs("rpc:view") };
const call = { config: needs("rpc:call") };

const Name = z.string().regex(/^[^:/\s]{1,200}$/);
const Namespace = z.object({ ns: z.string().min(1).max(200) });
const Place = Namespace.extend({ service: Name });

/** The permissions of its routes. */
export const rpcPermissions: PermissionSpecs = {
  "rpc:view": { least: "viewer", means: "See services, methods, workers and queue lengths." },
  "rpc:call": { least: "operator", means: "Call services through the gateway." },
};

/** The part for the services of a Redis. */
export function rpcPart(redis: Redis, options: RpcPartOptions = {}): PortalPart {
  requireRedis(redis);
  const { timeoutMs = 30_000 } = options;
  const clients: Clients = new Pool({
    what: "rpc clients",
    most: MOST_CLIENTS,
    open: (ns) => createClient(redis, { ns, timeoutMs }),
    close: (client) => client.close(),
  });
  return {
    name: "rpc",
    about: {
      en: "Calls: which services there are, who serves them, and a way to call them by HTTP.",
      zh: "远程调用：有哪些服务、由谁提供，以及通过 HTTP 调用它们的方式。",
    },
    permissions: rpcPermissions,
    async routes(app) {
      addRegistry(app, redis, clients);
      await addGateway(app, clients);
    },
    metrics: (registry) => addMetrics(registry, redis, clients),
    close: () => clients.close(),
  };
}

function addRegistry(app: PortalApp, redis: Redis, clients: Clients): void {
  app.get(
    "/api/rpc/namespaces",
    { ...view, schema: { summary: "List namespaces", response: { 200: RpcNamespaces } } },
    async () => ({ namespaces: await listNamespaces(redis) }),
  );
  app.get(
    "/api/rpc/:ns/services",
    {
      ...view,
      schema: {
        summary: "List services with methods, workers and waiting calls",
        params: Namespace,
        response: { 200: RpcServices },
      },
    },
    async (request) => {
      const { ns } = request.params;
      const services = await servicesOf(ns, clients);
      if (services.length === 0 && !(await listNamespaces(redis)).includes(ns)) {
        throw new UnknownResourceError("namespace", ns);
      }
      return { services: services.map(serviceView) };
    },
  );
}

async function addGateway(app: PortalApp, clients: Clients): Promise<void> {
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      ["application/json", "application/json-rpc"],
      { parseAs: "string" },
      (_request, body, done) => done(null, body),
    );
    scope.post(
      "/rpc/:ns/:service",
      {
        ...call,
        schema: {
          summary: "JSON-RPC 2.0: call a service",
          description:
            "One request or a batch. With `Accept: text/event-stream` one request is answered by events: progress, item, then end or error.",
          params: Place,
        },
      },
      async (request, reply) => {
        const { ns, service } = request.params as z.infer<typeof Place>; // checked by the schema
        const text = typeof request.body === "string" ? request.body : "";
        const onError = (error: unknown) =>
          request.log.error({ err: error }, "a call through the gateway failed");
        if (/\btext\/event-stream\b/.test(request.headers.accept ?? "")) {
          return answerByEvents(reply, { clients, ns, text, service, onError });
        }
        const signal = whileConnected(reply);
        const answer = await clients.use(ns, (client) =>
          answerMessage(text, {
            call: (method, params) => client.call(`${service}.${method}`, params, { signal }),
            notify: (method, params) => client.notify(`${service}.${method}`, params),
            onError,
          }),
        );
        return answer === undefined ? reply.code(204).send() : reply.send(answer);
      },
    );
  });
}

/** A request to the gateway. */
interface Asked {
  readonly clients: Clients;
  readonly ns: string;
  readonly service: string;
  readonly text: string;
  /** Called with an error whose message callers do not see. */
  onError(error: unknown): void;
}

/** One call as a stream of events. A client that disconnects cancels it. */
function answerByEvents(reply: FastifyReply, asked: Asked): FastifyReply {
  const { clients, ns } = asked;
  return serveEvents(reply, (stream) =>
    clients.use(ns, (client) => sendEvents(stream, client, asked)),
  );
}

async function sendEvents(stream: EventStream, client: RpcClient, asked: Asked): Promise<void> {
  const request = parse(asked.text);
  if ("code" in request) {
    await stream.send({ event: "error", data: request });
    return;
  }
  const { method, params } = request;
  if (!isCallable(method)) {
    await stream.send({ event: "error", data: { code: -32601, message: "Method not found" } });
    return;
  }
  let reports = Promise.resolve();
  const items = client.stream(`${asked.service}.${method}`, params, {
    signal: stream.signal,
    onProgress: (progress) => {
      reports = reports.then(() => stream.send({ event: "progress", data: progress }));
      reports.catch(() => {}); // the stream has ended, and its signal cancels the call
    },
  });
  try {
    for await (const item of items) await stream.send({ event: "item", data: { item } });
    await stream.send({ event: "end", data: {} });
  } catch (error) {
    if (!isTold(error)) asked.onError(error);
    await stream.send({ event: "error", data: errorOf(error) });
  }
}

/** The request, or the reason why it is invalid. */
function parse(text: string): GatewayRequest | { readonly code: number; readonly message: string } {
  try {
    return readRequest(JSON.parse(text)) ?? { code: -32600, message: "Invalid Request" };
  } catch {
    return { code: -32700, message: "Parse error" };
  }
}

/**
 * Aborts when the client has disconnected before the response. Listens to the response and not to the
 * connection, which outlives it and would keep a listener for every request that it ever carried.
 */
function whileConnected(reply: FastifyReply): AbortSignal {
  const abort = new AbortController();
  const end = () => {
    if (!reply.raw.writableFinished) abort.abort(new Error("the client went away"));
  };
  if (reply.raw.destroyed) end();
  else reply.raw.once("close", end);
  return abort.signal;
}

function serviceView(service: ServiceInfo): RpcService {
  const { name, waiting, sessionWaiting, inFlight, dead, methods, workers } = service;
  return {
    name,
    waiting,
    sessionWaiting,
    inFlight,
    dead,
    methods: Object.entries(methods).map(([method, described]) => ({
      name: method,
      doc: described.doc ?? "",
      args: Array.isArray(described.args) ? described.args.map(String) : [],
      returns: described.return ?? "any",
      kind: described.kind ?? "unary",
      schema: described.schema ?? null,
    })),
    workers: workers.map((worker) => ({
      node: worker.node,
      host: worker.host ?? null,
      pid: worker.pid ?? null,
      version: worker.version ?? null,
      since: worker.since ?? null,
      running: worker.running ?? null,
      concurrency: worker.concurrency ?? null,
      methods: { ...worker.methods },
    })),
  };
}

function addMetrics(registry: Registry, redis: Redis, clients: Clients): void {
  const registers = [registry];
  const labelNames = ["ns", "service"] as const;
  const waiting = new Gauge({
    name: "ropeway_rpc_waiting_calls",
    help: "Calls that wait for a worker.",
    labelNames,
    registers,
  });
  new Gauge({
    name: "ropeway_rpc_workers",
    help: "Live workers of a service.",
    labelNames,
    registers,
    async collect() {
      // One read serves both; while Redis is unreachable, they keep their values.
      const found = await findServices(redis, clients).catch(() => undefined);
      if (found === undefined) return;
      this.reset();
      waiting.reset();
      for (const { ns, name, workers, waiting: calls } of found) {
        this.set({ ns, service: name }, workers.length);
        waiting.set({ ns, service: name }, calls);
      }
    },
  });
}

function servicesOf(ns: string, clients: Clients): Promise<readonly ServiceInfo[]> {
  return clients.use(ns, (client) => client.discover());
}

async function findServices(redis: Redis, clients: Clients) {
  const found: (ServiceInfo & { readonly ns: string })[] = [];
  // One after the other: however many namespaces there are, they take one place of the pool.
  for (const ns of await listNamespaces(redis)) {
    found.push(...(await servicesOf(ns, clients)).map((service) => ({ ns, ...service })));
  }
  return found;
}
