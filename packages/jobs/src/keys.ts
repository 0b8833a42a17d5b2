/**
 * Every key of a queue. All of them begin with the queue's unit prefix and so share one hash tag:
 *
 *   ropeway:jobs:{email}:wait        prefix "ropeway:jobs", queue "email"
 *   {shop}:jobs:email:wait           prefix "{shop}:jobs": all queues of the application on one slot
 *
 * A job is one field of `jobs`, and its id is in exactly one of the places drawn here:
 *
 *             add                      next                  next (done)
 *   . . . . . ----> wait|prio|grouped ------> active+lease ------------> completed, or gone
 *                     ^        ^                 |  |  |
 *         add (delay) |        | move            |  |  +---- next (dead) --> failed
 *              +---> delayed --+ <--- retry -----+  |
 *              ^       ^  ^----- lease ran out -----+
 *    blocked --+       +------ promote, retry by hand
 *    (a parent, until its last child has ended)
 *
 * A lone job for an idle worker skips the lane: add.lua takes it on the worker's behalf and hands it over
 * through `wake`, so that it starts one hop after add().
 *
 * Everything that comes back comes back through `delayed`, be it due at once: so only add.lua and
 * move.lua know how a job finds its lane.
 */
import { unitPrefix } from "@ropeway/core/internal";

/** The default of every `prefix` option. */
export const DEFAULT_PREFIX = "ropeway:jobs";

/** The keys of one queue. */
export interface QueueKeys {
  /** hash: settings (paused, hold, conc, max, per, gconc, gmax, gper, listen) and counters. */
  readonly meta: string;
  /** hash: id -> record (see record.ts). */
  readonly jobs: string;
  /** list: ids without priority or group, next one first. */
  readonly wait: string;
  /** zset: id -> priority * 2^32 + sequence. */
  readonly prio: string;
  /** zset: group -> turn; only groups that may run something now. */
  readonly groups: string;
  /** zset of score 0, sorted by its text: group NUL priority(6 hex) sequence(13 hex) id. */
  readonly grouped: string;
  /** hash: "a" group -> jobs running, "t" group -> when its bucket is full again. */
  readonly tenants: string;
  /** zset: id -> due ms; scores below 10^6 are jobs handed back, which go to the front. */
  readonly delayed: string;
  /** hash: id -> token, which is fence@worker@since. */
  readonly active: string;
  /** zset: id -> ms when the lease runs out. */
  readonly lease: string;
  /** hash: id -> JSON {p progress, l log lines, e error, r result, t ended ms}. */
  readonly notes: string;
  /** zset: id -> ended ms. */
  readonly completed: string;
  /** zset: id -> ended ms: the dead letters. */
  readonly failed: string;
  /** hash: "n" parent -> children still to end, child -> "c" result | "f" error. */
  readonly kids: string;
  /** zset: parent -> added ms. */
  readonly blocked: string;
  /** hash: dedupe key -> "ends ms, or 0":id. */
  readonly dedupe: string;
  /** zset: "j" id | "d" dedupe key | "g" group -> ms when something is to be done about it. */
  readonly alarms: string;
  /** set: ids whose end somebody awaits. */
  readonly waited: string;
  /** hash: id -> reason. */
  readonly cancels: string;
  /**
   * zset: idle workers block on it. "0" (score 0): there may be work. token LF id LF record (score -1): a
   * job handed over, already active under that token.
   */
  readonly wake: string;
  /** stream: events, while somebody listens. */
  readonly events: string;
  /** zset: lease ms SPACE worker -> until when it blocks on `wake`, unless something wakes it. */
  readonly parked: string;
  /** hash: "s" schedule -> JSON, "l" schedule -> id of its newest job. */
  readonly schedules: string;
  /** zset: schedule -> next due ms. */
  readonly plan: string;
  /** hash: worker -> "seen ms" SPACE JSON. */
  readonly workers: string;
  /** channel: "due" | "plan" | "cancel " id. */
  readonly control: string;
  /** channel: id of an awaited job that has ended. */
  readonly results: string;
  /** The first 22 keys in the order the big scripts expect. */
  readonly all: readonly string[];
}

const ORDER = [
  "meta",
  "jobs",
  "wait",
  "prio",
  "groups",
  "grouped",
  "tenants",
  "delayed",
  "active",
  "lease",
  "notes",
  "completed",
  "failed",
  "kids",
  "blocked",
  "dedupe",
  "alarms",
  "waited",
  "cancels",
  "wake",
  "events",
  "parked",
] as const;

const OTHERS = ["schedules", "plan", "workers", "control", "results"] as const;

/** The keys of a queue; any name that is not empty will do. */
export function queueKeys(prefix: string, queue: string): QueueKeys {
  const unit = unitPrefix(prefix, queue);
  const named = [...ORDER, ...OTHERS].map((name) => [name, `${unit}:${name}`] as const);
  return {
    ...(Object.fromEntries(named) as Record<(typeof ORDER | typeof OTHERS)[number], string>),
    all: ORDER.map((name) => `${unit}:${name}`),
  };
}

/** set: the names of all queues under a prefix, for tools that look around. */
export function queuesKey(prefix: string): string {
  return `${prefix}:queues`;
}
