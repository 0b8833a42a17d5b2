/** What `ropeway rpc ...` does. Each verb opens the settings' Redis, does one thing, and closes it. */
import { once } from "node:events";
import type { Redis } from "@ropeway/core";
import { show } from "@ropeway/core/internal";
import {
  type ClientOptions,
  createClient,
  DeadlineExceededError,
  listNamespaces,
  type RpcClient,
  RpcError,
  RpcServer,
  type ServiceInfo,
} from "@ropeway/rpc";
import type { Context } from "../context.ts";
import { durationOf } from "../duration.ts";
import { NotFoundError, UsageError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { isoTime } from "../terminal/time.ts";
import { demo, demoHandlers } from "./demo.ts";
import { type Report, requestOf, showProgress, splitNamespace, wireOf } from "./request.ts";
import { cancel, notify, poll, submit } from "./ticket-verbs.ts";

type Verb = (context: Context) => Promise<void>;

interface Found extends ServiceInfo {
  readonly ns: string;
}

async function list(context: Context): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  const services = await discover(redis, context);
  const items = services.map(({ ns, name, methods, workers, ...lengths }) => ({
    service: `${ns}/${name}`,
    methods: Object.keys(methods).sort(),
    workers: workers.map(({ node }) => node).sort(),
    waiting: lengths.waiting,
    sessionWaiting: lengths.sessionWaiting,
    inFlight: lengths.inFlight,
    dead: lengths.dead,
  }));
  context.output.list(
    { items },
    {
      columns: {
        SERVICE: ({ service }) => service,
        WORKERS: ({ workers }) => String(workers.length),
        WAITING: ({ waiting }) => String(waiting),
        METHODS: ({ methods }) => methods.join(" "),
      },
      empty: "no services: start one with `ropeway rpc serve-demo`",
    },
  );
}

async function describe(context: Context): Promise<void> {
  const [target = ""] = context.arguments;
  const { ns, rest: name } = splitNamespace(target, "namespace/service");
  await using redis = await openRedis(await findRedis(context));
  const services = await discoverIn(redis, ns);
  const found = services.find((service) => service.name === name);
  if (found === undefined) {
    const known = services.map((service) => `${ns}/${service.name}`);
    throw new NotFoundError("service", target, known);
  }
  context.output.result(found, ({ methods }) => {
    // Redis keeps them in no order.
    const sorted = Object.entries(methods).sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [method, { doc = "", args = [], kind = "unary", return: gives }] of sorted) {
      const stream = kind === "unary" ? "" : ` (${kind})`;
      context.output.line(`${method}(${args.join(", ")}) -> ${gives ?? "any"}${stream}  ${doc}`);
    }
  });
}

async function workers(context: Context): Promise<void> {
  const [target = ""] = context.arguments;
  const { ns, rest: name } = splitNamespace(target, "namespace/service");
  await using redis = await openRedis(await findRedis(context));
  await using client = await createClient(redis, { ns });
  const items = await client.workers(name);
  if (items.length === 0) {
    const services = await client.discover();
    if (!services.some((service) => service.name === name)) {
      const known = services.map((service) => `${ns}/${service.name}`);
      throw new NotFoundError("service", target, known);
    }
  }
  context.output.list(
    { items },
    {
      columns: {
        NODE: ({ node }) => node,
        GROUP: ({ group = "-" }) => group,
        RUNNING: ({ running = "-" }) => running,
        CONCURRENCY: ({ concurrency = "-" }) => concurrency,
        HOST: ({ host = "-" }) => host,
        PID: ({ pid = "-" }) => pid,
        SINCE: ({ since }) => (since === undefined ? "-" : isoTime(since)),
      },
      empty: "no live workers: calls wait until one starts",
    },
  );
}

async function call(context: Context): Promise<void> {
  const { options, output, signal } = context;
  const { ns, rest, service, params } = await requestOf(context);
  const how = { timeoutMs: durationOf(options, "timeout", 1), signal };
  const onProgress = (report: Report) => showProgress(output, report);
  const work = async (client: RpcClient) => {
    if (options.stream === true) {
      for await (const item of client.stream(rest, params, how)) output.line(JSON.stringify(item));
      return;
    }
    const caller = sessionOf(client, options.session) ?? client;
    const progress = options.progress === true ? { onProgress } : {};
    const result = await caller.call(rest, params, { ...how, ...progress });
    output.line(JSON.stringify(result ?? null));
  };
  await using redis = await openRedis(await findRedis(context));
  const wire = wireOf(context, ns);
  await using client = await createClient(redis, wire);
  await namingAbsence(() => work(client), { client, wire, service });
}

async function stats(context: Context): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  const services = await discover(redis, context);
  const items = services.flatMap(({ ns, name, workers }) =>
    workers.flatMap(({ node, running = 0, methods = {} }) =>
      Object.entries(methods).map(([method, figures]) => {
        return { method: `${ns}/${name}.${method}`, node, running, ...figures };
      }),
    ),
  );
  context.output.list(
    { items },
    {
      columns: {
        METHOD: ({ method }) => method,
        NODE: ({ node }) => node,
        CALLS: ({ calls }) => String(calls),
        "PER S": ({ perSecond }) => String(perSecond ?? 0),
        ERRORS: ({ errors }) => String(errors),
        "P50 MS": ({ p50Ms }) => String(p50Ms),
        "P99 MS": ({ p99Ms }) => String(p99Ms),
      },
      empty: "no statistics: start a service with `ropeway rpc serve-demo`",
    },
  );
}

async function serveDemo(context: Context): Promise<void> {
  const { options, output, signal } = context;
  await using redis = await openRedis(await findRedis(context));
  const server = new RpcServer(redis, {
    ...wireOf(context, String(options.ns)),
    node: options.node as string | undefined,
    group: options.group as string | undefined,
    exposeErrors: true,
  });
  await server.add(demo, demoHandlers).start();
  redis.onLost(({ message }) => output.note(`${message}; reconnecting`));
  redis.onReady(() => output.note(`connected to ${redis.where} again`));
  try {
    const where = options.dialect === "kw" ? options.prefix : options.ns;
    output.result({ ready: true, service: "demo", where, node: server.node }, (ready) => {
      output.line(`serving ${where}/demo as ${ready.node}; Ctrl-C stops it`);
    });
    if (!signal.aborted) await once(signal, "abort");
  } finally {
    await server.close();
  }
}

/** By the name of the verb on the command line. */
export const verbs: Readonly<Record<VerbName, Verb>> = {
  list,
  describe,
  workers,
  call,
  notify,
  submit,
  poll,
  cancel,
  stats,
  "serve-demo": serveDemo,
};

/** Every verb of `ropeway rpc`. */
export type VerbName =
  | "list"
  | "describe"
  | "workers"
  | "call"
  | "notify"
  | "submit"
  | "poll"
  | "cancel"
  | "stats"
  | "serve-demo";

/** The target of a call. */
interface Callee {
  readonly client: RpcClient;
  readonly wire: ClientOptions;
  /** "" in the kw wire, whose callers name functions only. */
  readonly service: string;
}

/**
 * Makes the call. If no worker took it in time, the error says so. Workers are looked up only then: a worker of another
 * program may serve without being registered.
 */
async function namingAbsence(call: () => Promise<void>, callee: Callee): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!(error instanceof DeadlineExceededError)) throw error;
    const { client, wire, service } = callee;
    const { ns = "", prefix = "" } = wire;
    if ((await client.workers(service)).length > 0) throw error;
    const what = service === "" ? `anything under the prefix ${prefix}` : `${ns}/${service}`;
    const message = `${error.message}: no live worker serves ${what}; \`ropeway rpc list\` prints the services`;
    throw new RpcError("UNAVAILABLE", message, { cause: error, details: { service: what } });
  }
}

async function discover(redis: Redis, { options }: Context): Promise<Found[]> {
  const namespaces = options.ns === undefined ? await listNamespaces(redis) : [String(options.ns)];
  const found = await Promise.all(
    namespaces.map(async (ns) => (await discoverIn(redis, ns)).map((info) => ({ ns, ...info }))),
  );
  return found.flat();
}

async function discoverIn(redis: Redis, ns: string): Promise<readonly ServiceInfo[]> {
  await using client = await createClient(redis, { ns });
  return client.discover();
}

function sessionOf(client: RpcClient, session: unknown) {
  if (session === undefined) return undefined;
  const [group = "", ...rest] = String(session).split(":");
  if (group === "" || rest.length === 0) {
    throw new UsageError(`--session is ${show(session)}, but must be group:client`);
  }
  return client.session(group, rest.join(":"));
}
