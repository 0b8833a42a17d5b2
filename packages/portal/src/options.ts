/** What a portal can be told, what it does when it is not told, and what it refuses. */
import { InvalidOptionError, type Logger, silentLogger } from "@ropeway/core";
import {
  checkPrefix,
  integer,
  milliseconds,
  type OptionTable,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { passwordFault, USERNAME_ALLOWED, usernameOf } from "./access/credentials.ts";

/** How a portal behaves. */
export interface PortalOptions {
  /** The address to listen on; anything but loopback opens the portal to others. @default "127.0.0.1" */
  readonly host?: string;
  /** The port to listen on; 0 takes any free one. @default 0 */
  readonly port?: number;
  /** The beginning of every key the portal keeps in Redis. @default "ropeway" */
  readonly prefix?: string;
  /** The largest request body in bytes; a larger one is answered with 413. @default 1048576 */
  readonly bodyLimit?: number;
  /** How long close() waits for requests under way before it cuts them. @default 10000 */
  readonly closeWithinMs?: number;
  /** The name of the account that the first start creates. @default "admin" */
  readonly adminUsername?: string;
  /** Its password. @default a random one, returned by start() once */
  readonly adminPassword?: string | undefined;
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
  closeWithinMs: { default: 10_000, rule: milliseconds() },
  adminUsername: {
    default: "admin",
    rule: satisfying(USERNAME_ALLOWED, (value) => usernameOf(value) !== undefined),
  },
  // Checked below: a rule's error would repeat the value.
  adminPassword: { default: undefined, rule: satisfying("a password", () => true) },
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
