/** Finds and opens the Redis of a command. */
import {
  AuthFailedError,
  ConnectFailedError,
  type ConnectOptions,
  connect,
  type Endpoint,
  parseEndpoint,
  type Redis,
  RopewayError,
  ServerTooOldError,
} from "@ropeway/core";
import type { Context } from "./context.ts";
import { NoRedisError } from "./errors.ts";
import { withTls } from "./redis-tls.ts";
import { readSecret } from "./secret.ts";
import type { LoadedSettings } from "./settings/load.ts";
import { homeAt } from "./up/home.ts";
import { holderOf } from "./up/home-claim.ts";

/**
 * A user waits, so a server that is down is reported soon. When a command closes its connection, it does not wait for
 * replies, so a server that hangs does not keep the process alive.
 */
export const INTERACTIVE: ConnectOptions = {
  connectWaitMs: 2_000,
  connectTimeoutMs: 2_000,
  closeWithinMs: 500,
};

/** A Redis, and the setting that names it. */
export interface RedisPlace {
  readonly endpoint: Endpoint;
  /** Such as REDIS_URL, or the home whose `up` runs it. */
  readonly where: string;
}

/** The Redis of redis.url; undefined if none is set. */
export function configuredRedis(settings: LoadedSettings): RedisPlace | undefined {
  const { values, origins } = settings;
  const url = values["redis.url"];
  if (url === undefined) return undefined;
  const endpoint = withTls(parseEndpoint(url), settings);
  const file = values["redis.passwordFile"];
  const password = endpoint.password ?? (file === undefined ? undefined : readSecret(file));
  return {
    endpoint: password === undefined ? endpoint : { ...endpoint, password },
    where: origins["redis.url"].where,
  };
}

/** The Redis of redis.url, else the one that `ropeway up` runs in this home. */
export async function findRedis(context: Context): Promise<RedisPlace> {
  const settings = context.settings();
  const configured = configuredRedis(settings);
  if (configured !== undefined) return configured;
  const { home } = settings.values;
  const own = await redisOfHome(home);
  if (own === undefined) throw new NoRedisError(home);
  return { endpoint: parseEndpoint(own.url), where: own.where };
}

/** The Redis that `ropeway up` runs in a home at this moment. */
export async function redisOfHome(
  home: string,
): Promise<{ readonly url: string; readonly where: string } | undefined> {
  const url = (await holderOf(homeAt(home)))?.redisUrl;
  return url === undefined ? undefined : { url, where: home };
}

/** Connects. An error names the setting that the address came from. */
export async function openRedis(
  { endpoint, where }: RedisPlace,
  options: ConnectOptions = INTERACTIVE,
): Promise<Redis> {
  try {
    return await connect(endpoint, { name: "ropeway-cli", ...options });
  } catch (error) {
    const explainable = [ConnectFailedError, AuthFailedError, ServerTooOldError];
    if (!explainable.some((kind) => error instanceof kind)) throw error;
    const { code, message, details } = error as RopewayError;
    const advice = `check that server, or change ${where}`;
    const context = { cause: error, details: { ...details, advice } };
    throw new RopewayError(code, `${message.replace(/\.$/, "")}; ${advice}`, context);
  }
}
