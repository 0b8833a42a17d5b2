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
  const parts = partsOf(url);
  if (parts === undefined) throw refuse("unknown scheme");
  const { kind, encrypted, place } = parts;
  const parameters = new URLSearchParams(parts.query ?? "");
  const known = PARAMETERS[kind ?? ""] ?? [];
  if ([...parameters.keys()].some((name) => !known.includes(name))) {
    throw refuse(`behind the ?, only ${known.join(", ") || "nothing"} is known here`);
  }
  const credentials =
    parts.credentials === undefined ? {} : parseCredentials(parts.credentials, refuse);
  const [hosts = "", path = ""] = splitOnce(place, "/");
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

/** The parts of a Redis URL, still encoded. */
interface UrlParts {
  readonly kind: string | undefined;
  readonly encrypted: boolean;
  /** The scheme, up to "://". */
  readonly head: string;
  /** User and password. */
  readonly credentials: string | undefined;
  /** Hosts and path. */
  readonly place: string;
  readonly query: string | undefined;
}

function partsOf(url: string): UrlParts | undefined {
  const match = SCHEME.exec(url);
  if (match === null) return undefined;
  const [, scheme = "", suffix, short = "", rest = ""] = match;
  const kind = suffix ?? SHORT_TLS[short] ?? (short || undefined);
  const [location = "", query] = splitOnce(rest, "?");
  // The path of a socket may contain an @, and begins where its credentials end.
  const slash = location.indexOf("/");
  const atOfSocket = location[slash - 1] === "@" ? slash - 1 : -1;
  const at = kind === "unix" ? atOfSocket : location.lastIndexOf("@");
  return {
    kind,
    encrypted: scheme === "rediss" || scheme === "valkeys" || short in SHORT_TLS,
    head: url.slice(0, url.length - rest.length),
    credentials: at < 0 ? undefined : location.slice(0, at),
    place: location.slice(at + 1),
    query,
  };
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

/**
 * A Redis URL without the password of its server, or with a mask for it; undefined if there is none. It is found as
 * parseEndpoint() finds it, so also in a URL whose password was not percent-encoded.
 */
export function withoutCredentials(url: string, mask?: string): string | undefined {
  const parts = partsOf(url);
  const [user = "", password] = splitOnce(parts?.credentials ?? "", ":");
  if (parts === undefined || password === undefined) return undefined;
  const query = parts.query === undefined ? "" : `?${parts.query}`;
  const shown = mask === undefined ? user : `${user}:${mask}`;
  return `${parts.head}${shown === "" ? "" : `${shown}@`}${parts.place}${query}`;
}

/**
 * A URL with a mask for the values of parameters whose name matches `secret`, also if the name is percent-encoded.
 * A value lasts until the next "&": no other character ends it for every program.
 */
export function withoutParameters(url: string, secret: RegExp, mask: string): string {
  const begin = url.search(/[?#]/);
  if (begin < 0) return url;
  const parameters = url
    .slice(begin)
    .split("&")
    .map((parameter) => {
      const pieces = parameter.split("=");
      const last = pieces.length - 1;
      const name = pieces.findIndex((piece, n) => n < last && secret.test(unescaped(piece)));
      return name < 0 ? parameter : `${pieces.slice(0, name + 1).join("=")}=${mask}`;
    });
  return url.slice(0, begin) + parameters.join("&");
}

/** Without an error for what is not percent-encoded. */
function unescaped(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
}

/**
 * An address for messages, without passwords, even if it is invalid: redis:user:password@host. The text may be long,
 * so no expression searches the same stretch from many starts.
 */
export function withoutPassword(url: string): string {
  const scheme = url.indexOf("://");
  const at = url.lastIndexOf("@");
  const colon = url.indexOf(":", scheme + 3);
  let shown = url;
  if (scheme < 0 && at >= 0) shown = `***${url.slice(at)}`;
  if (scheme >= 0 && colon >= 0 && colon < at) {
    shown = `${url.slice(0, colon)}:***${url.slice(at)}`;
  }
  // The string may begin in the middle of a URL.
  return withoutParameters(`?${shown}`, /passw/i, "***").slice(1);
}
