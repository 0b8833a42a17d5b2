/** All options of nodes, inspectors and clusters: their meaning, defaults and limits. */
import type { Logger } from "@ropeway/core";
import {
  flag,
  integer,
  type OptionTable,
  optional,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import type { Runner } from "./runner.ts";
import type { SecretBox } from "./secrets.ts";

/** How a node behaves. */
export interface NodeOptions {
  /** Its id, unique in the cluster. */
  readonly id: string;
  /** Where portals reach its health check, such as http://10.0.0.5:7490. */
  readonly address: string;
  /** What it can run. */
  readonly runners: readonly Runner[];
  /** Decrypts the secrets of tasks. */
  readonly secrets: SecretBox;
  /** How long the node counts as alive without a sign of life. @default 8000 */
  readonly leaseMs?: number;
  /** How often it reports its load. @default 2000 */
  readonly reportMs?: number;
  /** How often the progress of a task is stored. @default 5000 */
  readonly progressMs?: number;
  /** The maximum number of tasks it runs. @default 1000 */
  readonly maxTasks?: number;
  /** How long close() waits for runs to stop. @default 10000 */
  readonly closeWithinMs?: number;
  /** Shown in lists. @default "" */
  readonly version?: string;
  /** @default silent */
  readonly logger?: Logger;
}

/** How a portal inspects. */
export interface InspectorOptions {
  /** The portal's id. */
  readonly id: string;
  /** Where others reach the portal. */
  readonly address: string;
  /** How often an inspection takes place, over all portals. @default 2000 */
  readonly everyMs?: number;
  /** How many health checks must fail before a node counts as down. @default 3 */
  readonly probes?: number;
  /** How long after one health check the next begins. @default 500 */
  readonly probeEveryMs?: number;
  /** How long a health check may take. @default 1000 */
  readonly probeTimeoutMs?: number;
  /** A node that has not reported for so long is checked. @default 6000 */
  readonly staleMs?: number;
  /** How long re-placement waits when most nodes vanish at once. @default 60000 */
  readonly brakeMs?: number;
  /** The lease of the portal's own registration. @default 8000 */
  readonly leaseMs?: number;
  /** Shown in lists. @default "" */
  readonly version?: string;
  /** Whether to inspect; false only registers. @default true */
  readonly inspect?: boolean;
  /** @default silent */
  readonly logger?: Logger | undefined;
}

const anObject = (value: unknown) => typeof value === "object" && value !== null;
const aText = satisfying<string>("a string", (value) => typeof value === "string");
const aLogger = optional(satisfying<Logger>("a logger", anObject));

type NodeTable = OptionTable<Omit<NodeOptions, "logger"> & { logger?: Logger | undefined }>;

const nodeTable: NodeTable = {
  id: { default: "", rule: text },
  address: { default: "", rule: aText },
  runners: { default: [], rule: satisfying("a list of runners", Array.isArray) },
  secrets: { default: undefined as never, rule: satisfying("a SecretBox", anObject) },
  leaseMs: { default: 8_000, rule: integer(1_000, 600_000) },
  reportMs: { default: 2_000, rule: integer(100, 60_000) },
  progressMs: { default: 5_000, rule: integer(50, 600_000) },
  maxTasks: { default: 1_000, rule: integer(1, 100_000) },
  closeWithinMs: { default: 10_000, rule: integer(0, 600_000) },
  version: { default: "", rule: aText },
  logger: { default: undefined, rule: aLogger },
};

const inspectorTable: OptionTable<InspectorOptions> = {
  id: { default: "", rule: text },
  address: { default: "", rule: aText },
  everyMs: { default: 2_000, rule: integer(100, 600_000) },
  probes: { default: 3, rule: integer(1, 20) },
  probeEveryMs: { default: 500, rule: integer(0, 60_000) },
  probeTimeoutMs: { default: 1_000, rule: integer(50, 60_000) },
  staleMs: { default: 6_000, rule: integer(500, 600_000) },
  brakeMs: { default: 60_000, rule: integer(0, 86_400_000) },
  leaseMs: { default: 8_000, rule: integer(1_000, 600_000) },
  version: { default: "", rule: aText },
  inspect: { default: true, rule: flag },
  logger: { default: undefined, rule: aLogger },
};

/** A node's options with nothing left out. */
export function resolveNodeOptions(given: NodeOptions): Required<Omit<NodeOptions, "logger">> & {
  logger: Logger | undefined;
} {
  return resolveOptions(nodeTable, given);
}

/** An inspector's options with nothing left out. */
export function resolveInspectorOptions(given: InspectorOptions): Required<InspectorOptions> {
  return resolveOptions(inspectorTable, given);
}
