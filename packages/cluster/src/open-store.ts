/**
 * A store from one setting:
 *
 *   redis                                       the Redis that is connected already (the default)
 *   etcd://host:port[,host:port]                etcd
 *   etcds://user:password@host:port,host:port   etcd over TLS, with a user
 */
import { InvalidOptionError, type Logger, type Redis } from "@ropeway/core";
import { withoutPassword } from "@ropeway/core/internal";
import type { StoreTls } from "./store/etcd/channel.ts";
import { openEtcdStore } from "./store/etcd/etcd-store.ts";
import { openRedisStore } from "./store/redis/redis-store.ts";
import type { Store } from "./store/store.ts";

/** What a store is opened with. */
export interface OpenStoreOptions {
  readonly url: string;
  /** Needed for `redis`. */
  readonly redis?: Redis | undefined;
  /** The beginning of the keys in Redis. @default "ropeway" */
  readonly prefix?: string;
  /** For etcds://. */
  readonly tls?: StoreTls;
  readonly logger: Logger;
}

/** The parts of an etcd URL. */
export interface EtcdPlace {
  readonly endpoints: readonly string[];
  readonly user: { readonly name: string; readonly password: string } | undefined;
}

const ALLOWED = "redis, etcd://host:port[,host:port] or etcds://[user:password@]host:port";
const URL_SHAPE = /^(etcds?):\/\/(?:([^:@/]*):([^@/]*)@)?([^@/?#]+)\/?$/i;

/** Reads an etcd URL. Throws InvalidOptionError, which does not repeat a password. */
export function parseEtcdUrl(url: string): EtcdPlace {
  const [, scheme = "", name, password, hosts = ""] = URL_SHAPE.exec(url) ?? [];
  const list = hosts.split(",").map((host) => host.trim());
  const usable =
    scheme !== "" && list.every((host) => /^(\[[0-9a-f:]+\]|[\w.-]+)(:\d{1,5})?$/i.test(host));
  if (!usable) throw new InvalidOptionError("store.url", withoutPassword(url), ALLOWED);
  const protocol = scheme.toLowerCase() === "etcds" ? "https" : "http";
  const endpoints = list.map(
    (host) => `${protocol}://${/:\d+$/.test(host) ? host : `${host}:2379`}`,
  );
  const user =
    name === undefined || password === undefined
      ? undefined
      : { name: decoded(name, url), password: decoded(password, url) };
  return { endpoints, user };
}

function decoded(part: string, url: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    const allowed = `${ALLOWED}, with user and password percent-encoded`;
    throw new InvalidOptionError("store.url", withoutPassword(url), allowed);
  }
}

/** Opens the store that the setting names. */
export function openStore(options: OpenStoreOptions): Promise<Store> {
  const { url, redis, prefix = "ropeway", tls, logger } = options;
  if (url === "redis") {
    if (redis === undefined) throw new InvalidOptionError("redis", redis, "a connected Redis");
    return Promise.resolve(openRedisStore(redis, { prefix: `${prefix}:store`, logger }));
  }
  const { endpoints, user } = parseEtcdUrl(url);
  return openEtcdStore({ endpoints, user, tls, logger });
}
