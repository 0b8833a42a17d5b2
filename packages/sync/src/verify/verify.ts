/** Compares a source with a target: the function behind `ropeway sync verify`. */
import {
  flag,
  integer,
  milliseconds,
  type OptionTable,
  optional,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { checkpointKey } from "../keys.ts";
import { Mapping } from "../mapping.ts";
import type { SyncOptions } from "../options.ts";
import { probe } from "../sink/abilities.ts";
import { taskName } from "../task-name.ts";
import { Anchor } from "./anchor.ts";
import { openEnd } from "./end.ts";
import { findTask } from "./task-finder.ts";
import { Verifier, type VerifyReport } from "./verifier.ts";

/** The ends to compare, and how. */
export interface VerifyOptions
  extends Pick<SyncOptions, "from" | "to" | "name" | "dbMap" | "filter" | "rename" | "ttlShiftMs"> {
  /** Write keys that differ as the source has them. @default false */
  readonly repair?: boolean;
  /** The maximum difference of expiries. @default 2 s */
  readonly ttlToleranceMs?: number;
  /** Differences beyond this number are counted, but not listed. @default 100000 */
  readonly maxListed?: number;
  /** @default 5 s */
  readonly connectTimeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** Called after each page of keys. */
  readonly onProgress?: ((keys: number, different: number) => void) | undefined;
}

const anything = <T>(allowed: string, test: (value: unknown) => boolean) => ({
  default: undefined,
  rule: optional(satisfying<T>(allowed, test)),
});
const isObject = (value: unknown) => typeof value === "object" && value !== null;

const table: OptionTable<VerifyOptions> = {
  from: { default: "", rule: text },
  to: { default: "", rule: text },
  name: anything("a task's name", (value) => typeof value === "string" && value !== ""),
  dbMap: anything("an object such as { 0: 1 }", isObject),
  filter: anything("an object of filters", isObject),
  rename: anything("an object of prefixes", isObject),
  ttlShiftMs: { default: 0, rule: integer(-(2 ** 47), 2 ** 47) },
  repair: { default: false, rule: flag },
  ttlToleranceMs: { default: 2_000, rule: milliseconds() },
  maxListed: { default: 100_000, rule: integer(0) },
  connectTimeoutMs: { default: 5_000, rule: milliseconds(1) },
  signal: anything("an AbortSignal", (value) => value instanceof AbortSignal),
  onProgress: anything("a function", (value) => typeof value === "function"),
};

/** Compares every key; see verifier.ts for the definition of a difference. */
export async function verify(given: VerifyOptions): Promise<VerifyReport> {
  const options = resolveOptions<VerifyOptions>(table, given);
  const { from, to, connectTimeoutMs, ttlShiftMs } = options;
  const mapping = new Mapping(options); // checks the filter before anything is opened
  const signal = options.signal ?? new AbortController().signal;
  const byDefault = taskName({ from, to, mode: "total" });
  const opening = { name: `ropeway-verify:${options.name ?? byDefault}`, connectTimeoutMs, signal };
  await using source = await openEnd({ ...opening, ttlShiftMs, url: from, option: "from" });
  await using target = await openEnd({ ...opening, ttlShiftMs: 0, url: to, option: "to" });
  const { name, repair } = options;
  const { name: task, phase } = await findTask({ source, target, name, byDefault, repair });
  const home = await target.guard(Buffer.from(checkpointKey(task, 0)));
  const abilities = await probe(home, task);
  const verifier = new Verifier({
    source: source.keys,
    target: target.keys,
    clustered: target.clustered,
    guard: (key) => target.guard(key),
    mapping,
    abilities,
    anchor: phase === "stream" ? new Anchor(task, source, target) : undefined,
    behind: phase === "load",
    repair,
    ttlShiftMs,
    ttlToleranceMs: options.ttlToleranceMs,
    maxListed: options.maxListed,
    signal,
    onProgress: options.onProgress ?? (() => {}),
  });
  return await verifier.run(); // before the connections close
}
