/** The commands that a target server supports, found by probing or by its version. */

/** The server that commands are written for. */
export interface TargetServer {
  readonly family: "redis" | "valkey";
  /** Major and minor version; Valkey's own version for Valkey. */
  readonly version: readonly [major: number, minor: number];
  /** The RDB version it writes, which is the newest that its RESTORE accepts. */
  readonly rdbVersion: number;
}

/** A feature that not every server has. */
export type Feature =
  | "replace"
  | "multiPairHset"
  | "unlink"
  | "swapdb"
  | "absoluteTtl"
  | "streams"
  | "keepTtl"
  | "setPxat"
  | "popCount"
  | "createConsumer"
  | "commands62"
  | "flushSync"
  | "functions"
  | "streamCounters"
  | "fieldExpiry"
  | "hsetex";

type Version = readonly [major: number, minor: number];

/** The Redis version that introduced a feature, and the Valkey version if not its first release. */
const SINCE: Readonly<Record<Feature, readonly [redis: Version, valkey?: Version]>> = {
  replace: [[3, 0]],
  multiPairHset: [[4, 0]],
  unlink: [[4, 0]],
  swapdb: [[4, 0]],
  absoluteTtl: [[5, 0]],
  streams: [[5, 0]],
  keepTtl: [[6, 0]],
  setPxat: [[6, 2]],
  popCount: [[6, 2]],
  createConsumer: [[6, 2]],
  commands62: [[6, 2]],
  flushSync: [[6, 2]],
  functions: [[7, 0]],
  streamCounters: [[7, 0]],
  fieldExpiry: [
    [7, 4],
    [9, 0],
  ],
  hsetex: [
    [8, 0],
    [9, 0],
  ],
};

const FIRST_VALKEY: Version = [7, 2];

/** Whether the target has a feature. */
export function supports({ family, version }: TargetServer, feature: Feature): boolean {
  const [redis, valkey = FIRST_VALKEY] = SINCE[feature];
  const needed = family === "redis" ? redis : valkey;
  return version[0] !== needed[0] ? version[0] > needed[0] : version[1] >= needed[1];
}
