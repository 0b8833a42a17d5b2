/**
 * Turns what a caller wishes for a job into the two things Redis needs: where the job goes (read once, by
 * add.lua) and what its record says for ever. Wrong wishes are refused here, before anything is sent.
 */
import { InvalidOptionError } from "@ropeway/core";
import { between, flag, integer, milliseconds, type Rule, text } from "@ropeway/core/internal";
import { InvalidNameError } from "./errors.ts";
import type { BackoffPlan, DedupePlan, JobOptions, Retention } from "./options.ts";
import type { RecordOptions } from "./record.ts";

/** Where add.lua puts a job; the short names are its own. */
export interface Placement {
  d?: number;
  at?: number;
  p?: number;
  g?: string;
  l?: 1;
  b?: 1;
  n?: number;
  w?: 1;
  k?: readonly [string, number, "keep" | "replace", number];
}

/** A job's options, read. */
export interface JobPlan {
  /** JSON for add.lua; empty for the end of the waiting list. */
  readonly placement: Placement | undefined;
  readonly options: RecordOptions;
}

const PLAIN: JobPlan = { placement: undefined, options: {} };
const PRIORITY = integer(-1_048_575, 1_048_575);
/** What setTimeout can count. */
const LONGEST_TIMER_MS = 2_147_483_647;
const KEPT_FAILED: readonly [number, number] = [10_000, 7_776_000_000];
const KNOWN = new Set([
  "id",
  "delayMs",
  "runAt",
  "priority",
  "lifo",
  "attempts",
  "backoff",
  "timeoutMs",
  "group",
  "dedupe",
  "keep",
  "awaited",
]);

/** Checks and reads the options of one job. */
export function planJob(options: JobOptions | undefined): JobPlan {
  if (options === undefined) return PLAIN;
  const placement: Placement = {};
  const record: { -readonly [K in keyof RecordOptions]: RecordOptions[K] } = {};
  for (const name in options) {
    if (!KNOWN.has(name)) {
      throw new InvalidOptionError(
        name,
        options[name as keyof JobOptions],
        `one of ${[...KNOWN].join(", ")}`,
      );
    }
  }
  planTime(options, placement);
  if (check("priority", options.priority, PRIORITY) && options.priority !== 0) {
    record.p = placement.p = options.priority;
  }
  if (check("lifo", options.lifo, flag) && options.lifo) placement.l = 1;
  if (options.group !== undefined) record.g = placement.g = checkName("group", options.group);
  if (check("awaited", options.awaited, flag) && options.awaited) placement.w = 1;
  if (check("attempts", options.attempts, integer(1)) && options.attempts > 1) {
    record.a = options.attempts;
  }
  if (options.backoff !== undefined) record.b = planBackoff(options.backoff);
  if (check("timeoutMs", options.timeoutMs, between(1, LONGEST_TIMER_MS)))
    record.t = options.timeoutMs;
  if (options.keep !== undefined) record.k = planKeep(options.keep);
  if (options.dedupe !== undefined) {
    placement.k = planDedupe(options.dedupe);
    record.d = placement.k[0];
  }
  for (const _ in placement) return { placement, options: record };
  return { placement: undefined, options: record };
}

/** A name that may stand in keys and lists. */
export function checkName(what: string, value: unknown): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (typeof value !== "string" || value === "" || /[\x00-\x1f]/.test(value)) {
    throw new InvalidNameError(what, value);
  }
  return value;
}

function planTime(options: JobOptions, placement: Placement): void {
  if (options.runAt !== undefined) {
    const at = Number(options.runAt);
    if (!Number.isFinite(at) || options.delayMs !== undefined) {
      throw new InvalidOptionError("runAt", options.runAt, "a time, and not together with delayMs");
    }
    placement.at = Math.ceil(at);
  } else if (check("delayMs", options.delayMs, milliseconds()) && options.delayMs > 0) {
    placement.d = Math.ceil(options.delayMs);
  }
}

function planBackoff(backoff: number | BackoffPlan): [string, number, number, number] {
  if (typeof backoff === "number") {
    check("backoff", backoff, milliseconds());
    return ["fixed", backoff, backoff, 0];
  }
  const { kind = "exponential", delayMs = 1_000, maxMs = 3_600_000, jitter = 0.2 } = backoff;
  check("backoff.kind", kind, text);
  check("backoff.delayMs", delayMs, milliseconds());
  check("backoff.maxMs", maxMs, milliseconds());
  check("backoff.jitter", jitter, between(0, 1));
  return [kind, delayMs, maxMs, jitter];
}

function planKeep(keep: NonNullable<JobOptions["keep"]>): [number, number, number, number] {
  const completed = retention("keep.completed", keep.completed) ?? [0, 0];
  const failed = retention("keep.failed", keep.failed) ?? KEPT_FAILED;
  return [completed[0], completed[1], failed[0], failed[1]];
}

/** [count, age]: count -1 is any number, age 0 is for ever. */
function retention(name: string, value: Retention | undefined): [number, number] | undefined {
  if (value === undefined) return undefined;
  if (value === true) return [-1, 0];
  if (value === false) return [0, 0];
  const { count = -1, ageMs = 0 } = typeof value === "number" ? { count: value } : value;
  check(`${name}.count`, count, integer(-1));
  check(`${name}.ageMs`, ageMs, milliseconds());
  return [count, Math.ceil(ageMs)];
}

function planDedupe(dedupe: string | DedupePlan): NonNullable<Placement["k"]> {
  const plan: DedupePlan = typeof dedupe === "string" ? { key: dedupe } : dedupe;
  const { ttlMs = 0, mode = "keep", maxWaitMs = 0 } = plan;
  check("dedupe.ttlMs", ttlMs, milliseconds());
  check("dedupe.maxWaitMs", maxWaitMs, milliseconds());
  if (mode !== "keep" && mode !== "replace") {
    throw new InvalidOptionError("dedupe.mode", mode, "keep or replace");
  }
  return [checkName("dedupe key", plan.key), Math.ceil(ttlMs), mode, Math.ceil(maxWaitMs)];
}

/** Whether the value is given; throws if it is given and wrong. */
function check<T>(name: string, value: T | undefined, rule: Rule<T>): value is T {
  if (value === undefined) return false;
  if (!rule.accepts(value)) throw new InvalidOptionError(name, value, rule.allowed);
  return true;
}
