/** The only place that opens connections. */
import { ClusterRedis } from "./cluster.ts";
import { type Endpoint, parseEndpoint } from "./endpoint.ts";
import { ConnectFailedError, InvalidOptionError } from "./errors.ts";
import { type Logger, silentLogger } from "./logger.ts";
import {
  integer,
  milliseconds,
  type OptionTable,
  resolveOptions,
  satisfying,
  text,
} from "./options.ts";
import type { Redis } from "./redis.ts";
import { SingleRedis } from "./single.ts";

/** How connections behave. */
export interface ConnectOptions {
  /** The name in CLIENT LIST, followed by the purpose of each connection. @default "ropeway" */
  readonly name?: string;
  /** How long connect() tries before it throws. @default 10000 */
  readonly connectWaitMs?: number;
  /** How long one attempt may take. @default 5000 */
  readonly connectTimeoutMs?: number;
  /** How long a command waits for a lost connection before it is rejected. @default 10000 */
  readonly offlineWaitMs?: number;
  /** How often an idle connection is tested. @default 5000 */
  readonly heartbeatMs?: number;
  /** Silence after which a connection is treated as dead. @default 15000 */
  readonly deadAfterMs?: number;
  /** How long close() waits for pending replies. @default 5000 */
  readonly closeWithinMs?: number;
  /** Any pino-compatible logger. @default silent */
  readonly logger?: Logger;
}

/** The options with all defaults. */
export type ResolvedConnectOptions = Required<ConnectOptions>;

const table: OptionTable<ConnectOptions> = {
  name: { default: "ropeway", rule: text },
  connectWaitMs: { default: 10_000, rule: milliseconds() },
  connectTimeoutMs: { default: 5_000, rule: milliseconds(1) },
  offlineWaitMs: { default: 10_000, rule: milliseconds() },
  heartbeatMs: { default: 5_000, rule: integer(10) },
  deadAfterMs: { default: 15_000, rule: integer(10) },
  closeWithinMs: { default: 5_000, rule: milliseconds() },
  logger: {
    default: silentLogger,
    rule: satisfying("a logger with debug, info, warn and error", isLogger),
  },
};

/** The default address, so that `connect(process.env.REDIS_URL)` also works on a developer's machine. */
const USUAL_PLACE = "redis://127.0.0.1:6379";

/**
 * Connects to a Redis by URL or Endpoint; undefined means redis://127.0.0.1:6379. Throws a typed error if
 * it cannot connect within `connectWaitMs`, and at once if the password is wrong or the server is too old.
 */
export async function connect(
  target: string | Endpoint | undefined,
  options?: ConnectOptions,
): Promise<Redis> {
  const endpoint = typeof target === "object" ? target : parseEndpoint(target ?? USUAL_PLACE);
  const resolved = resolveOptions(table, options);
  if (!Array.isArray(endpoint?.addresses) || endpoint.addresses.length === 0) {
    const allowed = "at least one address; or pass a URL: connect(process.env.REDIS_URL)";
    throw new InvalidOptionError("addresses", endpoint?.addresses, allowed);
  }
  if (/\s/.test(resolved.name)) {
    throw new InvalidOptionError("name", resolved.name, "a string without spaces");
  }
  const redis =
    endpoint.topology === "cluster"
      ? new ClusterRedis(endpoint, resolved)
      : new SingleRedis(endpoint, resolved);
  try {
    return await redis.opened(resolved.connectWaitMs);
  } catch (error) {
    // The most frequent cause is an environment variable that is not set in this terminal.
    if (target !== undefined || !(error instanceof ConnectFailedError)) throw error;
    throw new ConnectFailedError(
      USUAL_PLACE.slice(8),
      error.cause,
      ", the default if no URL is given (is REDIS_URL set?)",
    );
  }
}

function isLogger(value: unknown): boolean {
  const methods = ["debug", "info", "warn", "error"];
  return (
    typeof value === "object" &&
    value !== null &&
    methods.every((name) => typeof (value as Record<string, unknown>)[name] === "function")
  );
}
