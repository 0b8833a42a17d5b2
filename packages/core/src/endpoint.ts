/**
 * The address of a Redis, as one URL:
 *
 *   redis://user:password@host:6379/0            rediss:// for TLS
 *   redis+unix:///run/redis.sock?db=0           or unix:///run/redis.sock
 *   redis-sentinel://user:password@host1:26379,host2:26379/mymaster?db=0     rediss-sentinel://
 *   redis-cluster://user:password@host1:6379,host2:6379                      rediss-cluster://
 *
 * sentinel:// and cluster:// are short for redis-sentinel:// and redis-cluster://; sentinels:// and
 * clusters:// add TLS. User and password may contain any character, percent-encoded. The credentials of the
 * sentinels themselves are parameters: ?sentinelUsername=...&sentinelPassword=...
 */
import type { ConnectionOptions as TlsOptions } from "node:tls";
import { InvalidOptionError } from "./errors.ts";

/** One server's address. */
export type Address = { readonly host: string; readonly port: number } | { readonly path: string };

/** How to connect to a Redis. */
export interface Endpoint {
  readonly topology: "standalone" | "sentinel" | "cluster";
  /** The server, the sentinels, or some nodes of the cluster. */
  readonly addresses: readonly Address[];
  /** The name of the master in the configuration of the sentinels. */
  readonly masterName?: string;
  readonly username?: string;
  readonly password?: string;
  /** User and password of the sentinels themselves, if they need any. */
  readonly sentinelUsername?: string;
  readonly sentinelPassword?: string;
  readonly db?: number;
  /** TLS options; `true` for Node's defaults. */
  readonly tls?: TlsOptions | true;
}

const SCHEME =
  /^(?:(redis|rediss|valkey|valkeys)(?:[+-](unix|sentinel|cluster))?|(unix|sentinel|cluster|sentinels|clusters)):\/\/(.*)$/s;
/** The short schemes with TLS, and their kinds. */
const SHORT_TLS: Readonly<Record<string, string>> = { sentinels: "sentinel", clusters: "cluster" };
/** The parameters that a URL can have. */
const PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  unix: ["db"],
  sentinel: ["db", "sentinelUsername", "sentinelPassword"],
};
const ALLOWED =
  "a URL such as redis://user:password@127.0.0.1:6379/0, rediss://..., redis+unix:///path, sentinel://host:26379,host:26379/name or cluster://host:6379,host:6379";

/** Parses a Redis URL. Throws InvalidOptionError, without the password, if it is invalid. */
export function parseEndpoint(url: string, option: string = "url"): Endpoint {
  if (typeof url !== "string") throw new InvalidOptionError(option, url, ALLOWED);
  const refuse = (why: string) =>
    new InvalidOptionError(option, withoutPassword(url), `${ALLOWED} (${why})`);
  const match = SCHEME.exec(url);
  if (match === null) throw refuse("unknown scheme");
  const [, scheme = "", suffix, short = "", rest = ""] = match;
  const kind = suffix ?? SHORT_TLS[short] ?? (short || undefined);
  const [location = "", query = ""] = splitOnce(rest, "?");
  const parameters = new URLSearchParams(query);
  const known = PARAMETERS[kind ?? ""] ?? [];
  if ([...parameters.keys()].some((name) => !known.includes(name))) {
    throw refuse(`behind the ?, only ${known.join(", ") || "nothing"} is known here`);
  }
  // The path of a socket may contain an @, and begins where its credentials end.
  const at = kind === "unix" ? location.search(/(?<=^[^/]*)@\//) : location.lastIndexOf("@");
  const credentials = at < 0 ? {} : parseCredentials(location.slice(0, at), refuse);
  const [hosts = "", path = ""] = splitOnce(location.slice(at + 1), "/");
  const encrypted = scheme === "rediss" || scheme === "valkeys" || short in SHORT_TLS;
  const tls = encrypted ? { tls: true as const } : {};
  const common = { ...credentials, ...tls };

  if (kind === "unix") {
    const db = parseDb(parameters.get("db"), refuse);
    return { topology: "standalone", addresses: [{ path: `/${path}` }], ...common, ...db };
  }
  const addresses = parseHosts(hosts, kind === "sentinel" ? 26_379 : 6_379, refuse);
  if (kind === "cluster") {
    return { topology: "cluster", addresses, ...common };
  }
  if (kind === "sentinel") {
    const sentinelUsername = parameters.get("sentinelUsername");
    const sentinelPassword = parameters.get("sentinelPassword");
    if (path === "") throw refuse("the master's name is missing");
    return {
      topology: "sentinel",
      addresses,
      masterName: decode(path, () => refuse("the master's name is not percent-encoded")),
      ...common,
      ...(sentinelUsername === null ? {} : { sentinelUsername }),
      ...(sentinelPassword === null ? {} : { sentinelPassword }),
      ...parseDb(parameters.get("db"), refuse),
    };
  }
  if (addresses.length > 1) throw refuse("only one host is possible here");
  return { topology: "standalone", addresses, ...common, ...parseDb(path || null, refuse) };
}

/** The address as a string, such as host:port. */
export function showAddress(address: Address): string {
  if ("path" in address) return address.path;
  return address.host.includes(":")
    ? `[${address.host}]:${address.port}`
    : `${address.host}:${address.port}`;
}

/** The endpoint for messages, without its password. */
export function showEndpoint(endpoint: Endpoint): string {
  const where = endpoint.addresses.map(showAddress).join(",");
  return endpoint.masterName === undefined ? where : `${endpoint.masterName} at ${where}`;
}

type Refuse = (why: string) => InvalidOptionError;

function parseCredentials(text: string, refuse: Refuse): { username?: string; password?: string } {
  const [user = "", password] = splitOnce(text, ":");
  const wrong = () => refuse("the user or password is not percent-encoded");
  return {
    ...(user === "" ? {} : { username: decode(user, wrong) }),
    ...(password === undefined ? {} : { password: decode(password, wrong) }),
  };
}

function parseHosts(hosts: string, defaultPort: number, refuse: Refuse): Address[] {
  return (hosts || "127.0.0.1").split(",").map((entry) => {
    const match = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d+))?$/.exec(entry);
    const port = Number(match?.[3] ?? defaultPort);
    if (match === null || port < 1 || port > 65_535) {
      throw refuse("no such host"); // without the host, because it may be the end of a password
    }
    return { host: match[1] ?? match[2] ?? "", port };
  });
}

function parseDb(text: string | null, refuse: Refuse): { db?: number } {
  if (text === null) return {};
  if (!/^\d{1,5}$/.test(text)) throw refuse(`no such database number: ${text}`);
  return { db: Number(text) };
}

function decode(text: string, refuse: () => InvalidOptionError): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refuse();
  }
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** An address for messages, without passwords, even if it is invalid: redis:user:password@host. */
export function withoutPassword(url: string): string {
  const shown = url.includes("://")
    ? url.replace(/(:\/\/[^:@/]*):.*@/s, "$1:***@")
    : url.replace(/^.*@/s, "***@");
  return shown.replace(/(passw[^=&]*=)[^&#]*/gi, "$1***");
}
