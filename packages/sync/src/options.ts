/** The options of a task: their meaning, defaults and rules. */

import { tmpdir } from "node:os";
import { InvalidArgumentError, type Logger, silentLogger } from "@ropeway/core";
import {
  flag,
  integer,
  milliseconds,
  type OptionTable,
  oneOf,
  optional,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { Mapping, type SyncFilterOptions } from "./mapping.ts";
import type { Transform } from "./transform.ts";

/** What a task copies: all data and then changes, only the current data, or only changes. */
export type SyncMode = "total" | "stock" | "increment";

/** The settings of a SyncTask. */
export interface SyncOptions {
  /** The source: redis://, rediss://, sentinel://, cluster://, file: or http(s):// of an RDB or AOF. */
  readonly from: string;
  /** The target: redis://, rediss://, sentinel://, cluster://, or file: of an .rdb, .aof or .jsonl. */
  readonly to: string;
  /** @default "total" */
  readonly mode?: SyncMode;
  /** Names the checkpoint in the target. @default derived from both ends and the mode */
  readonly name?: string | undefined;
  /**
   * The fencing token of this run, chosen by the program that decides which run may write. @default the
   * last run's plus 1
   */
  readonly epoch?: number | undefined;
  /**
   * End when the target has everything that the source had at the end of the full synchronisation, or, if the
   * task resumes, at the start. @default false
   */
  readonly once?: boolean;
  /** Start from the beginning instead of resuming. @default false */
  readonly restart?: boolean;
  /** Read with SCAN and DUMP instead of PSYNC; only for mode "stock". @default false */
  readonly scan?: boolean;

  /** If the source no longer has the history: run a full synchronisation, or stop. @default "full" */
  readonly onResync?: "full" | "stop";
  /** Keys that already exist at the target: overwrite, keep, or fail. @default "replace" */
  readonly existing?: "replace" | "keep" | "fail";
  /**
   * Delete keys of the target that the source does not have, after a repeated full synchronisation. "auto": only
   * if the target was empty at first, and not with `twoWay`. @default "auto"
   */
  readonly sweep?: "auto" | "always" | "never";
  /** How values are written: RESTORE where possible, always RESTORE, always commands. @default "auto" */
  readonly path?: "auto" | "fast" | "slow";
  /** Values with more raw bytes are written in parts. @default 4 MiB */
  readonly bigBytes?: number;
  /** Keys that expire sooner than this are held back during the full synchronisation. @default 1 hour */
  readonly ttlFenceMs?: number;
  /** Added to every expiry, of keys and of hash fields. @default 0 */
  readonly ttlShiftMs?: number;

  /** Which databases are copied, and to which. Others are left out. @default all, to the same number */
  readonly dbMap?: Readonly<Record<string, number>> | undefined;
  /** Which keys and commands are copied. @default all */
  readonly filter?: SyncFilterOptions | undefined;
  /** Replaces the prefix of keys. The first matching entry is used. @default none */
  readonly rename?: Readonly<Record<string, string>> | undefined;
  /** Changes or drops commands before they are written. @default none */
  readonly transform?: Transform | undefined;

  /** FLUSHALL and FLUSHDB. "auto": apply if the target was empty at first, else stop. @default "auto" */
  readonly flush?: "auto" | "apply" | "drop" | "stop";
  /** SWAPDB. @default "apply" */
  readonly swapDb?: "apply" | "drop" | "stop";
  /** Function libraries. @default "apply" */
  readonly functions?: "apply" | "drop" | "stop";
  /** PUBLISH. Messages of Sentinels are always dropped. @default "apply" */
  readonly publish?: "apply" | "drop" | "stop";
  /** A transaction or command that a cluster target cannot apply as a whole. @default "split" */
  readonly crossSlot?: "split" | "stop";
  /** Mark the writes of this task and leave out those of the reverse task. @default false */
  readonly twoWay?: boolean;
  /** A server that has one of these keys in database 0 is neither read nor written. @default [] */
  readonly keepOff?: readonly string[];

  /** The maximum number of writes that may fail. Each is recorded. @default 0 */
  readonly maxErrors?: number;
  /** The maximum number of commands per second; 0 for no limit. @default 0 */
  readonly opsPerS?: number;
  /** The maximum number of bytes per second; 0 for no limit. @default 0 */
  readonly bytesPerS?: number;
  /** Slow down while a round trip to the target takes longer than this; 0 for no limit. @default 0 */
  readonly latencyMs?: number;

  /** The number of connections that load a snapshot. @default 3 */
  readonly lanes?: number;
  /** The approximate maximum size of a transaction. @default 256 KiB */
  readonly batchBytes?: number;
  /** The approximate maximum number of commands in a transaction. @default 1000 */
  readonly batchCommands?: number;
  /** The folder of the spool. @default the system's folder for temporary files */
  readonly spoolDir?: string;
  /** The maximum size of the spool in memory. @default 16 MiB */
  readonly spoolMemoryBytes?: number;
  /** The maximum size of the spool on disk. @default 32 GiB */
  readonly spoolDiskBytes?: number;
  /** How long the target may refuse writes before the task fails. @default 60 s */
  readonly stallMs?: number;
  /** @default 5 s */
  readonly connectTimeoutMs?: number;
  /** A source that sends nothing for this long is treated as lost. @default 60 s */
  readonly silenceMs?: number;
  /** How often `progress` is emitted. @default 1 s */
  readonly progressMs?: number;
  readonly logger?: Logger;
}

const MIB = 1024 * 1024;
const nothing = <T>(rule: { allowed: string; accepts(value: unknown): value is T }) => ({
  default: undefined,
  rule: optional(rule),
});

const NAME = /^[A-Za-z0-9._-]{1,64}$/;
const name = satisfying<string>(
  "1 to 64 letters, digits, dots, hyphens and underscores",
  (value) => typeof value === "string" && NAME.test(value),
);

const dbMap = satisfying<Readonly<Record<string, number>>>(
  "an object such as { 0: 0, 3: 1 }",
  (value) =>
    isPlain(value) &&
    Object.entries(value).every(
      ([from, to]) => /^\d{1,9}$/.test(from) && Number.isSafeInteger(to) && (to as number) >= 0,
    ),
);

const rename = satisfying<Readonly<Record<string, string>>>(
  'an object of prefixes such as { "old:": "new:" }',
  (value) => isPlain(value) && Object.values(value).every((to) => typeof to === "string"),
);

const filter = satisfying<SyncFilterOptions>("an object of key and command filters", isPlain);
const callable = satisfying<Transform>("a function", (value) => typeof value === "function");

const table: OptionTable<SyncOptions> = {
  from: { default: "", rule: text },
  to: { default: "", rule: text },
  mode: { default: "total", rule: oneOf("total", "stock", "increment") },
  name: nothing(name),
  epoch: nothing(integer(1)),
  once: { default: false, rule: flag },
  restart: { default: false, rule: flag },
  scan: { default: false, rule: flag },
  onResync: { default: "full", rule: oneOf("full", "stop") },
  existing: { default: "replace", rule: oneOf("replace", "keep", "fail") },
  sweep: { default: "auto", rule: oneOf("auto", "always", "never") },
  path: { default: "auto", rule: oneOf("auto", "fast", "slow") },
  bigBytes: { default: 4 * MIB, rule: integer(1) },
  ttlFenceMs: { default: 3_600_000, rule: milliseconds() },
  ttlShiftMs: { default: 0, rule: integer(-(2 ** 47), 2 ** 47) },
  dbMap: nothing(dbMap),
  filter: nothing(filter),
  rename: nothing(rename),
  transform: nothing(callable),
  flush: { default: "auto", rule: oneOf("auto", "apply", "drop", "stop") },
  swapDb: { default: "apply", rule: oneOf("apply", "drop", "stop") },
  functions: { default: "apply", rule: oneOf("apply", "drop", "stop") },
  publish: { default: "apply", rule: oneOf("apply", "drop", "stop") },
  crossSlot: { default: "split", rule: oneOf("split", "stop") },
  twoWay: { default: false, rule: flag },
  keepOff: { default: [], rule: satisfying("a list of keys", isTexts) },
  maxErrors: { default: 0, rule: integer(0) },
  opsPerS: { default: 0, rule: integer(0) },
  bytesPerS: { default: 0, rule: integer(0) },
  latencyMs: { default: 0, rule: milliseconds() },
  lanes: { default: 3, rule: integer(1, 64) },
  batchBytes: { default: 256 * 1024, rule: integer(1, 64 * MIB) },
  batchCommands: { default: 1_000, rule: integer(1, 100_000) },
  spoolDir: { default: tmpdir(), rule: text },
  spoolMemoryBytes: { default: 16 * MIB, rule: integer(MIB) },
  spoolDiskBytes: { default: 32 * 1024 * MIB, rule: integer(MIB) },
  stallMs: { default: 60_000, rule: milliseconds() },
  connectTimeoutMs: { default: 5_000, rule: milliseconds(1) },
  silenceMs: { default: 60_000, rule: milliseconds(1) },
  progressMs: { default: 1_000, rule: milliseconds(10) },
  logger: {
    default: silentLogger,
    rule: satisfying(
      "a pino-compatible logger",
      (value) => isPlain(value) || typeof value === "object",
    ),
  },
};

/** All options, with defaults. */
export type ResolvedSyncOptions = Required<SyncOptions>;

/** Fills in the defaults and checks every value. */
export function resolveSyncOptions(given: SyncOptions): ResolvedSyncOptions {
  if (!isPlain(given)) {
    const allowed = "an object with from and to, such as { from: OLD_URL, to: NEW_URL }";
    throw new InvalidArgumentError("options", given, allowed);
  }
  const from = given.from ?? "";
  const to = given.to ?? "";
  const resolved = resolveOptions<SyncOptions>(table, { ...given, from, to });
  new Mapping(resolved); // checks the content of the filter
  return resolved;
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
