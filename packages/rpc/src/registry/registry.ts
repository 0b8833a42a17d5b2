/**
 * The registry as documented: namespaces, services, and a description of each method. Workers write it
 * when they start, and again when their keys were gone (Redis lost its data). The next worker that starts removes
 * methods that no live worker serves.
 */

import type { Redis } from "@ropeway/core";
import { requireRedis } from "@ropeway/core/internal";
import { isName } from "../keys.ts";
import type { ServedService } from "../server/served-service.ts";
import type { MethodDescription } from "../service/service.ts";
import { type QueueLengths, RegistryStore, requestLists } from "../store/registry-store.ts";
import type { Dialect } from "../wire/dialect.ts";
import { Directory, type WorkerInfo } from "./directory.ts";

/** A service as returned by discover(). */
export interface ServiceInfo extends QueueLengths {
  readonly name: string;
  readonly methods: Readonly<Record<string, Partial<MethodDescription>>>;
  readonly workers: readonly WorkerInfo[];
  /** The number of session calls that wait for their node. */
  readonly sessionWaiting: number;
}

/** The arguments of register(). */
export interface Registration {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly ns: string;
  readonly services: readonly ServedService[];
}

/** Writes the services of a worker into the registry. Its works keys must already exist. */
export async function register({ redis, dialect, ns, services }: Registration): Promise<void> {
  const store = new RegistryStore(redis);
  const { registry } = dialect;
  const directory = new Directory(redis, dialect);
  if (dialect.sessions !== undefined) await store.addNamespace(ns);
  for (const { name, descriptions } of services) {
    const key = registry.description(name);
    await store.addService(registry.services(), name);
    await store.describe(key, descriptions);
    await forgetRemoved(store, directory, { key, name });
  }
}

/** Removes the methods that no live worker serves. */
async function forgetRemoved(
  store: RegistryStore,
  directory: Directory,
  service: { readonly key: string; readonly name: string },
): Promise<void> {
  // In this order: a worker renews its works key first and then describes its methods, so a method that
  // is described here by a live worker is in that worker's key when it is read.
  const described = (await store.descriptions(service.key)).filter((_, i) => i % 2 === 0);
  const ours = await directory.workers(service.name);
  const served = new Set(ours.flatMap(({ methods = {} }) => Object.keys(methods)));
  const removed = described.filter((method) => !served.has(method));
  if (removed.length === 0) return;
  // Workers of other programs do not report their methods: they may serve these.
  const workers = await directory.allWorkers(service.name);
  if (workers.every(({ methods }) => methods !== undefined))
    await store.forget(service.key, removed);
}

/** The namespaces of this Redis. */
export async function listNamespaces(redis: Redis): Promise<string[]> {
  requireRedis(redis);
  return (await new RegistryStore(redis).namespaces()).sort();
}

/** All services of a namespace or prefix, with methods, live workers and queue lengths. */
export async function discoverServices(
  redis: Redis,
  dialect: Dialect,
  directory: Directory = new Directory(redis, dialect),
): Promise<ServiceInfo[]> {
  const store = new RegistryStore(redis);
  const names = (await store.services(dialect.registry.services())).filter(isName).sort();
  return Promise.all(
    names.map(async (name) => {
      const described = await store.descriptions(dialect.registry.description(name));
      const methods = readDescriptions(described);
      const lists = requestLists(
        dialect.keys,
        name,
        dialect.listPerMethod ? Object.keys(methods) : undefined,
      );
      const [workers, sessionWaiting, ...lengths] = await Promise.all([
        directory.allWorkers(name),
        sessionLength(store, directory, { dialect, name }),
        ...lists.map((list) => store.lengths(list)),
      ]);
      return { name, methods, workers, sessionWaiting, ...sum(lengths) };
    }),
  );
}

/** The calls that wait for the nodes of all groups that serve a service. */
async function sessionLength(
  store: RegistryStore,
  directory: Directory,
  service: { readonly dialect: Dialect; readonly name: string },
): Promise<number> {
  const { sessions } = service.dialect;
  if (sessions === undefined) return 0;
  const workers = await directory.workers(service.name, 1_000);
  const lengths = await Promise.all(
    workers.flatMap(({ node, group }) =>
      group === undefined
        ? []
        : [store.length(sessions.sessionRequest(`${group}:${node}`, service.name))],
    ),
  );
  return lengths.reduce((total, length) => total + length, 0);
}

function sum(lengths: readonly QueueLengths[]): QueueLengths {
  return lengths.reduce(
    (total, each) => ({
      waiting: total.waiting + each.waiting,
      inFlight: total.inFlight + each.inFlight,
      dead: total.dead + each.dead,
    }),
    { waiting: 0, inFlight: 0, dead: 0 },
  );
}

function readDescriptions(flat: readonly string[]): ServiceInfo["methods"] {
  const methods: Record<string, Partial<MethodDescription>> = Object.create(null);
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const [method = "", text = ""] = [flat[i], flat[i + 1]];
    methods[method] = readDescription(text);
  }
  return methods;
}

/** A description may also be a plain sentence. */
function readDescription(text: string): Partial<MethodDescription> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Partial<MethodDescription>;
  } catch {
    // a sentence
  }
  return { doc: text };
}
