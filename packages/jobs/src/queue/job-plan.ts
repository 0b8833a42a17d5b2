/**
 * Turns a job's options into the two values that Redis needs: the job's place (read once, by add.lua) and
 * the options in its record. Wrong options are refused here, before anything is sent.
 */
import { InvalidOptionError } from "@ropeway/core";
import { between, closest, flag, integer, type Rule } from "@ropeway/core/internal";
import { checkName, NAME } from "../name.ts";
import {
  type BackoffPlan,
  type DedupePlan,
  type JobOptions,
  LONGEST_MS,
  type Retention,
} from "../options.ts";
import type { RecordOptions } from "../record.ts";

/** The place where add.lua puts a job. The short names are part of its arguments. */
export interface Placement {
  /** delay ms */
  d?: number;
  /** due ms */
  at?: number;
  /** priority */
  p?: number;
  /** group */
  g?: string;
  /** in front */
  l?: 1;
  /** blocked by children */
  b?: 1;
  /** number of children */
  n?: number;
  /** token of the flow */
  y?: string;
  /** awaited */
  w?: 1;
  /** dedupe key, ttl, mode, longest wait */
  k?: readonly [string, number, "keep" | "replace", number];
}

/** The checked options of a job. */
export interface JobPlan {
  /** JSON for add.lua; empty for the end of the waiting list. */
  readonly placement: Placement | undefined;
  readonly options: RecordOptions;
}

const PLAIN: JobPlan = { placement: undefined, options: {} };
const PRIORITY = integer(-1_048_575, 1_048_575);
const DURATION = between(0, LONGEST_MS);
/** Until the year 2286: sums stay exact in Lua. */
const TIME = between(0, 1e13);
/** The maximum delay of setTimeout. */
const LONGEST_TIMER_MS = 2_147_483_647;
/** A larger number is never reached. -1 and `true` keep any number. */
const MOST_KEPT = 1e12;
/** A larger number is never reached, and Lua would write it with fewer digits than it has. */
const MOST_ATTEMPTS = 1e12;
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

/** The JSON of a placement for add.lua. */
export function placementText(placement: Placement | undefined): string {
  return placement === undefined ? "" : JSON.stringify(placement);
}

/** The options of a job, completed with the queue's defaults. */
export function withDefaults(
  defaults: JobOptions | undefined,
  options: JobOptions | undefined,
): JobOptions | undefined {
  if (options === undefined) return defaults;
  checkObject("options", options);
  return defaults === undefined ? options : { ...defaults, ...options };
}

/** Checks the options of one job and makes its plan. */
export function planJob(options: JobOptions | undefined): JobPlan {
  if (options === undefined) return PLAIN;
  const placement: Placement = {};
  const record: { -readonly [K in keyof RecordOptions]: RecordOptions[K] } = {};
  checkNames("", options, KNOWN);
  planTime(options, placement);
  if (check("priority", options.priority, PRIORITY) && options.priority !== 0) {
    record.p = placement.p = options.priority;
  }
  if (check("lifo", options.lifo, flag) && options.lifo) placement.l = 1;
  if (options.group !== undefined) record.g = placement.g = checkName("group", options.group);
  if (check("awaited", options.awaited, flag) && options.awaited) placement.w = 1;
  if (check("attempts", options.attempts, integer(1)) && options.attempts > 1) {
    record.a = Math.min(options.attempts, MOST_ATTEMPTS);
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

function planTime(options: JobOptions, placement: Placement): void {
  if (options.runAt !== undefined) {
    const at = options.runAt instanceof Date ? options.runAt.getTime() : options.runAt;
    if (!TIME.accepts(at) || options.delayMs !== undefined) {
      const allowed = "a time in ms before the year 2286, and not together with delayMs";
      throw new InvalidOptionError("runAt", options.runAt, allowed);
    }
    placement.at = Math.ceil(at);
  } else if (check("delayMs", options.delayMs, DURATION) && options.delayMs > 0) {
    placement.d = Math.ceil(options.delayMs);
  }
}

const HOUR_MS = 3_600_000;
const KINDS = ["fixed", "exponential", "custom"];
const BACKOFF_OPTIONS = new Set(["kind", "name", "delayMs", "maxMs", "jitter"]);

function planBackoff(backoff: number | BackoffPlan): [string, number, number, number] {
  if (typeof backoff === "number") {
    check("backoff", backoff, DURATION);
    return ["fixed", backoff, backoff, 0];
  }
  checkNames("backoff", backoff, BACKOFF_OPTIONS);
  const { kind = "exponential", name, delayMs = 1_000 } = backoff;
  const { maxMs = Math.max(HOUR_MS, delayMs), jitter = kind === "fixed" ? 0 : 0.2 } = backoff;
  if (!KINDS.includes(kind)) {
    const allowed =
      'fixed, exponential or custom; a function of the worker is { kind: "custom", name }';
    throw new InvalidOptionError("backoff.kind", kind, allowed);
  }
  if (kind === "custom") check("backoff.name", name ?? "", NAME);
  check("backoff.delayMs", delayMs, DURATION);
  check("backoff.maxMs", maxMs, between(delayMs, LONGEST_MS));
  check("backoff.jitter", jitter, between(0, 1));
  return [kind === "custom" ? `custom:${name}` : kind, delayMs, maxMs, jitter];
}

const KEEP_OPTIONS = new Set(["completed", "failed"]);
const RETENTION_OPTIONS = new Set(["count", "ageMs"]);

function planKeep(keep: NonNullable<JobOptions["keep"]>): [number, number, number, number] {
  checkNames("keep", keep, KEEP_OPTIONS);
  const completed = retention("keep.completed", keep.completed) ?? [0, 0];
  const failed = retention("keep.failed", keep.failed) ?? KEPT_FAILED;
  return [completed[0], completed[1], failed[0], failed[1]];
}

/** [count, age]: count -1 means any number, age 0 means for ever. */
function retention(name: string, value: Retention | undefined): [number, number] | undefined {
  if (value === undefined) return undefined;
  if (value === true) return [-1, 0];
  if (value === false) return [0, 0];
  if (typeof value !== "number") checkNames(name, value, RETENTION_OPTIONS);
  const { count = -1, ageMs = 0 } = typeof value === "number" ? { count: value } : value;
  check(`${name}.count`, count, integer(-1, MOST_KEPT));
  check(`${name}.ageMs`, ageMs, DURATION);
  return [count, Math.ceil(ageMs)];
}

const DEDUPE_OPTIONS = new Set(["key", "ttlMs", "mode", "maxWaitMs"]);

function planDedupe(dedupe: string | DedupePlan): NonNullable<Placement["k"]> {
  const plan: DedupePlan = typeof dedupe === "string" ? { key: dedupe } : dedupe;
  checkNames("dedupe", plan, DEDUPE_OPTIONS);
  const { ttlMs = 0, mode = "keep", maxWaitMs = 0 } = plan;
  check("dedupe.ttlMs", ttlMs, DURATION);
  check("dedupe.maxWaitMs", maxWaitMs, DURATION);
  if (mode !== "keep" && mode !== "replace") {
    throw new InvalidOptionError("dedupe.mode", mode, "keep or replace");
  }
  return [checkName("dedupe key", plan.key), Math.ceil(ttlMs), mode, Math.ceil(maxWaitMs)];
}

/** Refuses a value that is not an object. */
export function checkObject(name: string, value: unknown): void {
  if (typeof value === "object" && value !== null) return;
  throw new InvalidOptionError(name, value, "an object");
}

/** Refuses an unknown option: a misspelled name must not silently become a default. */
export function checkNames(where: string, given: object, known: ReadonlySet<string>): void {
  checkObject(where === "" ? "options" : where, given);
  for (const name in given) {
    if (known.has(name)) continue;
    const near = closest(name, [...known]);
    const allowed =
      near === undefined
        ? `one of ${[...known].join(", ")}`
        : `a known option: did you mean ${near}?`;
    const path = where === "" ? name : `${where}.${name}`;
    throw new InvalidOptionError(path, given[name as keyof typeof given], allowed);
  }
}

/** Whether the value is given. Throws InvalidOptionError if it is given and wrong. */
function check<T>(name: string, value: T | undefined, rule: Rule<T>): value is T {
  if (value === undefined) return false;
  if (!rule.accepts(value)) throw new InvalidOptionError(name, value, rule.allowed);
  return true;
}
