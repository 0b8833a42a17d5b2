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
 *                     ^   ^    ^                 |  |  |
 *         add (delay) |   |    | move            |  |  +---- next (dead) --> failed
 *              +--> delayed ---+ <--- retry -----+  |
 *              ^      ^   |                         |
 *    blocked --+      |   '---- handed back, or lease expired: to the front
 *    (a parent,       |
 *     until its       +------ promote, retry by hand
 *     children ended)
 *
 * A single job for an idle worker skips the list: add.lua takes it on the worker's behalf and hands it over
 * through `wake`, so that it starts one hop after add().
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
  /** zset: id -> priority * 2^32 + place. Jobs without priority are here when they come back. */
  readonly prio: string;
  /** zset: group -> turn; only groups that may run a job now. */
  readonly groups: string;
  /** zset of score 0, sorted by its members: group NUL priority(6 hex) place(13 hex) id. */
  readonly grouped: string;
  /** hash: "a" group -> jobs running, "t" group -> when its bucket is full again. */
  readonly usage: string;
  /** zset: id -> due ms. */
  readonly delayed: string;
  /** hash: id -> token, which is fence@worker@since, and @reason if the job is to be cancelled. */
  readonly active: string;
  /** zset: id -> ms when the lease expires. */
  readonly lease: string;
  /** hash: id -> JSON {p progress, l log lines, h errors of attempts, r result, t ended ms}. */
  readonly notes: string;
  /** zset: id -> ended ms. */
  readonly completed: string;
  /** zset: id -> ended ms: the dead letters. */
  readonly failed: string;
  /**
   * hash; ids are preceded by the flow's token and a colon: "n" parent -> number of unfinished children,
   * "c" child -> outcome, "x" parent -> error of a child.
   */
  readonly children: string;
  /** zset: parent -> added ms. */
  readonly blocked: string;
  /** hash: dedupe key -> "ends ms, or 0":id. */
  readonly dedupe: string;
  /** zset: "j" id | "w" id | "d" dedupe key | "g" group | "t" group -> ms when its timer fires. */
  readonly timers: string;
  /** set: ids of jobs that are awaited. */
  readonly awaited: string;
  /**
   * zset: idle workers block on it. "0" (score 0): there may be work. token LF id LF record (score -1): a
   * job handed over, already active under that token.
   */
  readonly wake: string;
  /** stream: events, while a listener is attached. */
  readonly events: string;
  /** zset: lease ms SPACE worker -> until when it blocks on `wake`, unless something wakes it. */
  readonly idle: string;
  /** hash: id -> priority(6 hex) place(13 hex) of a waiting job with a group. */
  readonly places: string;
  /** zset: group -> since when a limit holds it back. */
  readonly capped: string;
  /** hash: number -> JSON message for another queue (a child to add, a child's outcome). */
  readonly outbox: string;
  /** hash: producer -> number of its last add, so that a repeated call is not applied twice. */
  readonly adds: string;
  /** list: a line of totals per minute, for a day. */
  readonly history: string;
  /** hash: worker -> "seen ms" SPACE JSON. */
  readonly workers: string;
  /** hash: "s" schedule -> JSON, "l" schedule -> id of its newest job, "n" schedule -> runs. */
  readonly schedules: string;
  /** zset: schedule -> next due ms. */
  readonly plan: string;
  /** hash: the jobs of a deleted queue until their parents in other queues know it; "" -> token of the deletion. */
  readonly gone: string;
  /** hash: its outbox. */
  readonly goneoutbox: string;
  /** channel: "due" | "plan" | "cancel " id. */
  readonly control: string;
  /**
   * channel: id of an awaited job that has ended, or id LF "removed" | "cancelled" LF reason; LF "removed"
   * for all of them.
   */
  readonly results: string;
  /** All keys in the order the scripts expect. */
  readonly all: readonly string[];
  /** The first keys, up to `outbox`: enough for the scripts that every job uses. */
  readonly hot: readonly string[];
  /** The keys of `hot`, and `adds`. */
  readonly adding: readonly string[];
}

const ORDER = [
  "meta",
  "jobs",
  "wait",
  "prio",
  "groups",
  "grouped",
  "usage",
  "delayed",
  "active",
  "lease",
  "notes",
  "completed",
  "failed",
  "children",
  "blocked",
  "dedupe",
  "timers",
  "awaited",
  "wake",
  "events",
  "idle",
  "places",
  "capped",
  "outbox",
  "adds",
  "history",
  "workers",
  "schedules",
  "plan",
] as const;

const HOT = ORDER.indexOf("outbox") + 1;
const LAST = ["gone", "goneoutbox"] as const;
const CHANNELS = ["control", "results"] as const;

/** The keys of a queue. Accepts any name that is not empty. */
export function queueKeys(prefix: string, queue: string): QueueKeys {
  const unit = unitPrefix(prefix, queue);
  const named = [...ORDER, ...LAST, ...CHANNELS].map((name) => [name, `${unit}:${name}`] as const);
  const all = ORDER.map((name) => `${unit}:${name}`);
  return {
    ...(Object.fromEntries(named) as Record<
      (typeof ORDER | typeof LAST | typeof CHANNELS)[number],
      string
    >),
    all,
    hot: all.slice(0, HOT),
    adding: all.slice(0, HOT + 1),
  };
}

/** set: the names of all queues under a prefix. */
export function queuesKey(prefix: string): string {
  return `${prefix}:queues`;
}
