/** The options of a portal: their meaning, defaults and limits. */
import { isIP } from "node:net";
import type { Store } from "@ropeway/cluster";
import { InvalidOptionError, type Logger, silentLogger } from "@ropeway/core";
import {
  checkPrefix,
  flag,
  integer,
  milliseconds,
  type OptionTable,
  optional,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { passwordFault, USERNAME_ALLOWED, usernameOf } from "./access/credentials.ts";
import type { PortalPart } from "./part.ts";

/** How a portal behaves. */
export interface PortalOptions {
  /** The address to listen on; anything but loopback opens the portal to others. @default "127.0.0.1" */
  readonly host?: string;
  /** The port to listen on; 0 takes any free one. @default 0 */
  readonly port?: number;
  /** The beginning of every key the portal keeps in Redis. @default "ropeway" */
  readonly prefix?: string;
  /** The largest request body in bytes; a larger one gets the status 413. @default 1048576 */
  readonly bodyLimit?: number;
  /** How long a client may take to send a request, body included; then 408. @default 60000 */
  readonly requestTimeoutMs?: number;
  /**
   * The names by which clients reach the portal, such as "portal.example.com". Loopback names and IP
   * addresses are always served, other names are refused; "*" allows every name. @default []
   */
  readonly hosts?: readonly string[];
  /**
   * Which proxies are trusted to send X-Forwarded-For and -Proto: true for all (only behind a proxy that sets
   * them), or addresses and networks such as "10.0.0.0/8, 127.0.0.1". @default false
   */
  readonly trustProxy?: boolean | string;
  /** How long a readiness probe may take before it counts as failed. @default 1000 */
  readonly readyWithinMs?: number;
  /** How long Redis may not respond before requests get the status 503. @default 3000 */
  readonly redisSilenceMs?: number;
  /** How long close() keeps serving with /readyz at 503, so that balancers notice. @default 0 */
  readonly closeDelayMs?: number;
  /** How long close() then waits for requests under way before it cuts them. @default 10000 */
  readonly closeWithinMs?: number;
  /** How long a session lives without a request. @default 1800000 (30 minutes) */
  readonly sessionIdleMs?: number;
  /** The maximum lifetime of a session. @default 43200000 (12 hours) */
  readonly sessionMaxMs?: number;
  /** Whether /metrics is served without a login. If false, it needs metrics:view. @default true */
  readonly publicMetrics?: boolean;
  /** The maximum number of event streams that are open at once. @default 500 */
  readonly maxStreams?: number;
  /** The maximum number of event streams of one account; on public routes, of one address. @default 32 */
  readonly maxStreamsPerAccount?: number;
  /** Parts to add to the built-in ones. @default [] */
  readonly parts?: readonly PortalPart[];
  /** The name of the account that the first start creates. @default "admin" */
  readonly adminUsername?: string;
  /** Its password. @default a random one, returned by start() once */
  readonly adminPassword?: string | undefined;
  /** Where accounts, roles, tokens and the audit log are kept. @default the store on the same Redis */
  readonly store?: Store | undefined;
  /** Any pino-compatible logger. @default silent */
  readonly logger?: Logger;
}

/** The options with nothing left out. */
export type ResolvedPortalOptions = Required<PortalOptions>;

const table: OptionTable<PortalOptions> = {
  host: { default: "127.0.0.1", rule: text },
  port: { default: 0, rule: integer(0, 65_535) },
  prefix: { default: "ropeway", rule: text },
  bodyLimit: { default: 1_048_576, rule: integer(1) },
  requestTimeoutMs: { default: 60_000, rule: milliseconds(1) },
  hosts: {
    default: [],
    rule: satisfying('a list of host names, without ports, or "*"', areHosts),
  },
  trustProxy: {
    default: false,
    rule: satisfying(
      "true, false, or addresses and networks with commas between them",
      (value) => typeof value === "boolean" || (typeof value === "string" && areNetworks(value)),
    ),
  },
  readyWithinMs: { default: 1_000, rule: milliseconds(1) },
  redisSilenceMs: { default: 3_000, rule: integer(100) },
  closeDelayMs: { default: 0, rule: milliseconds() },
  closeWithinMs: { default: 10_000, rule: milliseconds() },
  sessionIdleMs: { default: 30 * 60_000, rule: integer(1_000) },
  sessionMaxMs: { default: 12 * 3_600_000, rule: integer(1_000) },
  publicMetrics: { default: true, rule: flag },
  maxStreams: { default: 500, rule: integer(1) },
  maxStreamsPerAccount: { default: 32, rule: integer(1) },
  parts: {
    default: [],
    rule: satisfying("a list of parts", Array.isArray),
  },
  adminUsername: {
    default: "admin",
    rule: satisfying(USERNAME_ALLOWED, (value) => usernameOf(value) !== undefined),
  },
  // Checked below, because the error of a rule would contain the value.
  adminPassword: { default: undefined, rule: satisfying("a password", () => true) },
  store: {
    default: undefined,
    rule: optional(satisfying("a store", (value) => typeof value === "object" && value !== null)),
  },
  logger: {
    default: silentLogger,
    rule: satisfying("a logger with debug, info, warn and error", isLogger),
  },
};

/** Fills in the defaults; a wrong value is an InvalidOptionError that never repeats a password. */
export function resolvePortalOptions(given: PortalOptions | undefined): ResolvedPortalOptions {
  const options = resolveOptions(table, given);
  checkPrefix(options.prefix);
  if (options.adminPassword !== undefined) {
    const fault = passwordFault(options.adminPassword);
    if (fault !== undefined) throw new InvalidOptionError("adminPassword", "***", fault);
  }
  return options;
}

function isLogger(value: unknown): boolean {
  const methods = ["debug", "info", "warn", "error"];
  return (
    typeof value === "object" &&
    value !== null &&
    methods.every((name) => typeof (value as Record<string, unknown>)[name] === "function")
  );
}

function areHosts(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) &&
    value.every((host) => typeof host === "string" && /^(\*|[a-z0-9._-]{1,253})$/i.test(host))
  );
}

function areNetworks(list: string): boolean {
  return list.split(",").every((entry) => {
    const [address = "", bits, ...rest] = entry.trim().split("/");
    const most = isIP(address) === 4 ? 32 : 128;
    const sized = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most);
    return isIP(address) !== 0 && sized && rest.length === 0;
  });
}
