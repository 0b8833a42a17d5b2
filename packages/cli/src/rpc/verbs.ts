/** What `ropeway rpc ...` does. Each verb opens the settings' Redis, does one thing, and closes it. */
import { once } from "node:events";
import type { Redis } from "@ropeway/core";
import {
  type ClientOptions,
  createClient,
  listNamespaces,
  type RpcClient,
  RpcServer,
  type ServiceInfo,
} from "@ropeway/rpc";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { demo, demoHandlers } from "./demo.ts";

type Verb = (context: Context) => Promise<void>;

interface Found extends ServiceInfo {
  readonly ns: string;
}

async function list(context: Context): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  const services = await discover(redis, context);
  const rows = services.map(({ ns, name, methods, workers, waiting }) => ({
    service: `${ns}/${name}`,
    methods: Object.keys(methods).sort(),
    workers: workers.map(({ node }) => node).sort(),
    waiting,
  }));
  context.output.result(rows, (all) => {
    context.output.table(
      ["SERVICE", "WORKERS", "WAITING", "METHODS"],
      all.map(({ service, workers, waiting, methods }) => {
        return [service, String(workers.length), String(waiting), methods.join(" ")];
      }),
    );
  });
}

async function describe(context: Context): Promise<void> {
  const [target = ""] = context.arguments;
  const { ns, rest: name } = splitNamespace(target, "namespace/service");
  await using redis = await openRedis(await findRedis(context));
  const found = (await discoverIn(redis, ns)).find((service) => service.name === name);
  if (found === undefined) throw new UsageError(`there is no service ${target}`);
  context.output.result(found, ({ methods }) => {
    for (const [method, { doc = "", args = [], kind = "unary", return: gives }] of Object.entries(
      methods,
    )) {
      const stream = kind === "unary" ? "" : ` (${kind})`;
      context.output.line(`${method}(${args.join(", ")}) -> ${gives ?? "any"}${stream}  ${doc}`);
    }
  });
}

async function call(context: Context): Promise<void> {
  const { options, output, signal } = context;
  const [target = "", text = "[]"] = context.arguments;
  const params = readParams(text);
  const kw = options.dialect === "kw";
  const { ns, rest } = kw
    ? { ns: "default", rest: target }
    : splitNamespace(target, "namespace/service.method");
  if (!kw && !/^[^.]+\../.test(rest)) {
    throw new UsageError(`the target is namespace/service.method, not ${target}`);
  }
  const how = { timeoutMs: readTimeout(options.timeout), signal };
  const onProgress = ({ percent, message }: { percent: number; message: string }) =>
    output.note(`${Math.round(percent * 100)} % ${message}`);
  await withClient(context, ns, async (client) => {
    if (options.stream === true) {
      for await (const item of client.stream(rest, params, how)) output.line(JSON.stringify(item));
      return;
    }
    const caller = sessionOf(client, options.session) ?? client;
    const progress = options.progress === true ? { onProgress } : {};
    const result = await caller.call(rest, params, { ...how, ...progress });
    output.line(JSON.stringify(result ?? null));
  });
}

async function stats(context: Context): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  const services = await discover(redis, context);
  const rows = services.flatMap(({ ns, name, workers }) =>
    workers.flatMap(({ node, running = 0, methods = {} }) =>
      Object.entries(methods).map(([method, figures]) => {
        return { method: `${ns}/${name}.${method}`, node, running, ...figures };
      }),
    ),
  );
  context.output.result(rows, (all) => {
    context.output.table(
      ["METHOD", "NODE", "CALLS", "ERRORS", "P50 MS", "P99 MS"],
      all.map(({ method, node, calls, errors, p50Ms, p99Ms }) =>
        [method, node, calls, errors, p50Ms, p99Ms].map(String),
      ),
    );
  });
}

async function serveDemo(context: Context): Promise<void> {
  const { options, output, signal } = context;
  await using redis = await openRedis(await findRedis(context));
  const server = new RpcServer(redis, {
    ...wireOf(context, String(options.ns)),
    node: options.node as string | undefined,
    group: options.group as string | undefined,
  });
  await server.add(demo, demoHandlers).start();
  try {
    const where = options.dialect === "kw" ? options.prefix : options.ns;
    output.result({ ready: true, service: "demo", where, node: server.node }, (ready) => {
      output.line(`serving ${where}/demo as ${ready.node}; Ctrl-C stops`);
    });
    if (!signal.aborted) await once(signal, "abort");
  } finally {
    await server.close();
  }
}

/** By the name of the verb on the command line. */
export const verbs: Readonly<Record<"list" | "describe" | "call" | "stats" | "serve-demo", Verb>> =
  { list, describe, call, stats, "serve-demo": serveDemo };

async function withClient(
  context: Context,
  ns: string,
  work: (client: RpcClient) => Promise<void>,
): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  await using client = await createClient(redis, wireOf(context, ns));
  await work(client);
}

function wireOf({ options }: Context, ns: string): ClientOptions {
  return options.dialect === "kw" ? { dialect: "kw", prefix: String(options.prefix) } : { ns };
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
    throw new UsageError(`--session is group:client, not ${session}`);
  }
  return client.session(group, rest.join(":"));
}

function splitNamespace(target: string, shape: string): { ns: string; rest: string } {
  const at = target.lastIndexOf("/");
  if (at <= 0 || at === target.length - 1) {
    throw new UsageError(`the target is ${shape}, not ${target}`);
  }
  return { ns: target.slice(0, at), rest: target.slice(at + 1) };
}

function readParams(text: string): unknown {
  try {
    const params: unknown = JSON.parse(text);
    if (typeof params === "object" && params !== null) return params;
  } catch {
    // told below
  }
  throw new UsageError(`the params are a JSON array or object, not ${text}`);
}

function readTimeout(given: unknown): number {
  const ms = Number(given);
  if (!(ms >= 1)) throw new UsageError(`--timeout is a number of milliseconds, not ${given}`);
  return ms;
}
