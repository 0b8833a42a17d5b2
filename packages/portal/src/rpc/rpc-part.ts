/** Calls in the portal: who serves what, and a JSON-RPC 2.0 gateway with live progress and streams. */
import type { Redis } from "@ropeway/core";
import { listNamespaces, type RpcClient, type ServiceInfo } from "@ropeway/rpc";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Gauge, type Registry } from "prom-client";
import { z } from "zod";
import { needs } from "../access/permission.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import { serveEvents } from "../sse.ts";
import { ClientShelf } from "./client-shelf.ts";
import { answerMessage, errorOf, readRequest } from "./gateway.ts";
import { RpcNamespaces, type RpcService, RpcServices } from "./rpc-contract.ts";

/** What the part is given. */
export interface RpcPartOptions {
  /** How long a call through the gateway may take. @default 30000 */
  readonly timeoutMs?: number;
}

const view = { config: needs("rpc:view") };
const call = { config: needs("rpc:call") };

const Name = z.string().regex(/^[^:/\s]{1,200}$/);
const Namespace = z.object({ ns: z.string().min(1).max(200) });
const Place = Namespace.extend({ service: Name });

/** The part for the services of a Redis. */
export function rpcPart(redis: Redis, options: RpcPartOptions = {}): PortalPart {
  const shelf = new ClientShelf(redis, options.timeoutMs ?? 30_000);
  return {
    name: "rpc",
    about: {
      en: "Calls: which services there are, who serves them, and a way to call them by HTTP.",
      zh: "远程调用：有哪些服务、由谁提供，以及通过 HTTP 调用它们的方式。",
    },
    permissions: {
      "rpc:view": { least: "viewer", means: "See services, methods, workers and queue lengths." },
      "rpc:call": { least: "operator", means: "Call services through the gateway." },
    },
    async routes(app) {
      addRegistry(app, redis, shelf);
      await addGateway(app, shelf);
    },
    metrics: (registry) => addMetrics(registry, redis, shelf),
    close: () => shelf.close(),
  };
}

function addRegistry(app: PortalApp, redis: Redis, shelf: ClientShelf): void {
  app.get(
    "/api/rpc/namespaces",
    { ...view, schema: { summary: "Namespaces", response: { 200: RpcNamespaces } } },
    async () => ({ namespaces: await listNamespaces(redis) }),
  );
  app.get(
    "/api/rpc/:ns/services",
    {
      ...view,
      schema: {
        summary: "Services with methods, workers and waiting calls",
        params: Namespace,
        response: { 200: RpcServices },
      },
    },
    async (request) => {
      const client = await shelf.of(request.params.ns);
      return { services: (await client.discover()).map(serviceView) };
    },
  );
}

async function addGateway(app: PortalApp, shelf: ClientShelf): Promise<void> {
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
        const client = await shelf.of(ns);
        const text = typeof request.body === "string" ? request.body : "";
        if (/\btext\/event-stream\b/.test(request.headers.accept ?? "")) {
          return answerByEvents(reply, { client, text, service });
        }
        const answer = await answerMessage(text, {
          call: (method, params) =>
            client.call(`${service}.${method}`, params, {
              signal: whileConnected(request, reply),
            }),
          notify: (method, params) => client.notify(`${service}.${method}`, params),
          onError: (error) =>
            request.log.error({ err: error }, "a call through the gateway failed"),
        });
        return answer === undefined ? reply.code(204).send() : reply.send(answer);
      },
    );
  });
}

/** One call as a stream of events; who goes away cancels it. */
function answerByEvents(
  reply: FastifyReply,
  asked: { readonly client: RpcClient; readonly text: string; readonly service: string },
): FastifyReply {
  return serveEvents(reply, async (stream) => {
    const request = parse(asked.text);
    if (request === undefined) {
      await stream.send({ event: "error", data: { code: -32600, message: "Invalid Request" } });
      return;
    }
    const { method, params } = request;
    let reports = Promise.resolve();
    const items = asked.client.stream(`${asked.service}.${method}`, params, {
      signal: stream.signal,
      onProgress: (progress) => {
        reports = reports.then(() => stream.send({ event: "progress", data: progress }));
        reports.catch(() => {}); // the stream has ended, which its signal tells the call
      },
    });
    try {
      for await (const item of items) await stream.send({ event: "item", data: { item } });
      await stream.send({ event: "end", data: {} });
    } catch (error) {
      await stream.send({ event: "error", data: errorOf(error) });
    }
  });
}

function parse(text: string): ReturnType<typeof readRequest> {
  try {
    return readRequest(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Aborts when the one who asked has gone away without an answer. */
function whileConnected(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const abort = new AbortController();
  request.raw.socket.once("close", () => {
    if (!reply.raw.writableFinished) abort.abort(new Error("the client went away"));
  });
  return abort.signal;
}

function serviceView({ name, waiting, methods, workers }: ServiceInfo): RpcService {
  return {
    name,
    waiting,
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

function addMetrics(registry: Registry, redis: Redis, shelf: ClientShelf): void {
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
      // One look serves both; a Redis that is away leaves them as they were.
      const found = await findServices(redis, shelf).catch(() => undefined);
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

async function findServices(redis: Redis, shelf: ClientShelf) {
  const namespaces = await listNamespaces(redis);
  const found = await Promise.all(
    namespaces.map(async (ns) => {
      const services = await (await shelf.of(ns)).discover();
      return services.map((service) => ({ ns, ...service }));
    }),
  );
  return found.flat();
}
