/** The registry as documented: namespaces, services, and a description of each method. */
import { isReply, type Redis } from "@ropeway/core";
import { WrongKeyTypeError } from "../errors.ts";
import { type JsonRpcKeys, NAMESPACES } from "../keys.ts";
import type { ServedService } from "../server/served-service.ts";
import type { MethodDescription } from "../service/service.ts";
import type { Dialect } from "../wire/dialect.ts";
import { JsonRpcDialect } from "../wire/jsonrpc-dialect.ts";
import { Directory, type WorkerInfo } from "./directory.ts";

/** A service as discover() shows it. */
export interface ServiceInfo {
  readonly name: string;
  readonly methods: Readonly<Record<string, Partial<MethodDescription>>>;
  readonly workers: readonly WorkerInfo[];
  /** Calls that wait for a worker. */
  readonly waiting: number;
}

/** Writes what a server serves into the registry; the kw wire has none. */
export async function register(
  redis: Redis,
  dialect: Dialect,
  ...[ns, services]: [ns: string, services: readonly ServedService[]]
): Promise<void> {
  if (!(dialect instanceof JsonRpcDialect)) return;
  const { keys } = dialect;
  const commands = [["SADD", NAMESPACES, ns]];
  for (const { name, descriptions } of services) {
    commands.push(["SADD", keys.services(), name]);
    if (descriptions.length > 0) commands.push(["HSET", keys.description(name), ...descriptions]);
  }
  await Promise.all(commands.map((command) => ask(redis, command)));
}

/** The namespaces of this Redis. */
export async function listNamespaces(redis: Redis): Promise<string[]> {
  return (await ask<string[]>(redis, ["SMEMBERS", NAMESPACES])).sort();
}

/** All services of a namespace, with methods, live workers and queue lengths. */
export async function discoverServices(
  redis: Redis,
  keys: JsonRpcKeys,
  directory: Directory = new Directory(redis, keys),
): Promise<ServiceInfo[]> {
  const names = await ask<string[]>(redis, ["SMEMBERS", keys.services()]);
  const known = names.filter((name) => name !== "" && !/[:/\s]/.test(name));
  return Promise.all(
    known.sort().map(async (name) => {
      const [described, waiting, workers] = await Promise.all([
        ask<string[]>(redis, ["HGETALL", keys.description(name)]),
        ask<number>(redis, ["LLEN", keys.request(name)]),
        directory.workers(name),
      ]);
      return { name, methods: readDescriptions(described), workers, waiting };
    }),
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

/** The document also shows a description that is only a sentence. */
function readDescription(text: string): Partial<MethodDescription> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Partial<MethodDescription>;
  } catch {
    // a sentence
  }
  return { doc: text };
}

async function ask<T>(redis: Redis, command: readonly string[]): Promise<T> {
  const key = command[1] as string;
  try {
    return (await redis.send(command, { key, repeatable: true })) as T;
  } catch (error) {
    throw isReply(error, "WRONGTYPE") ? new WrongKeyTypeError(key, error) : error;
  }
}
