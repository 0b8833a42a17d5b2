/**
 * The messages between a worker and its sandbox. Values are copied by structured clone.
 *
 *   worker                           sandbox
 *          <------------ ready ------        the handler file is loaded (or `broken`)
 *          ------ run -------------->        one job at a time
 *          <----- call --------------        progress, log, touch, update, children, addChildren
 *          ------ reply ------------>
 *          ------ abort ------------>        cancelled, timed out, or lost
 *          <----- done | failed | putBack | noHandler | unusable
 *
 * The other side is sandbox/entry.js. If you change one, change both.
 */
import type { JobFailure } from "../errors.ts";
import type { JobContext } from "../worker/attempt.ts";

/** The fields of a job that a sandbox gets: its plain values. */
export type JobValues = Pick<
  JobContext,
  | "id"
  | "name"
  | "queue"
  | "data"
  | "attempt"
  | "maxAttempts"
  | "stalls"
  | "addedAt"
  | "group"
  | "fence"
>;

/** The methods of a job that a sandbox calls in its worker. */
export const CALLS = ["progress", "log", "touch", "update", "children", "addChildren"] as const;
export type CallName = (typeof CALLS)[number];

/** A message to a sandbox. */
export type ToSandbox =
  | { readonly kind: "run"; readonly job: JobValues }
  | { readonly kind: "abort"; readonly failure: JobFailure }
  | { readonly kind: "reply"; readonly number: number; readonly value?: unknown }
  | { readonly kind: "refusal"; readonly number: number; readonly failure: JobFailure };

/** A message from a sandbox. */
export type FromSandbox =
  | { readonly kind: "ready" }
  | { readonly kind: "broken"; readonly why: string }
  | {
      readonly kind: "call";
      readonly number: number;
      readonly method: CallName;
      readonly args: readonly unknown[];
    }
  | { readonly kind: "done"; readonly value: unknown }
  | { readonly kind: "failed"; readonly failure: JobFailure }
  | { readonly kind: "noHandler" }
  /** The result cannot be copied. */
  | { readonly kind: "unusable"; readonly why: string }
  | {
      readonly kind: "putBack";
      readonly method: "delay" | "waitForChildren";
      readonly args: readonly unknown[];
    };
