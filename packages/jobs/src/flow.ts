/**
 * A flow is a tree of jobs of one queue: a parent waits, blocked, until its last child has ended.
 * A child's id is its parent's id, a slash and its place; so the children of a parent need no list, and
 * their outcomes are found without one.
 *
 *   report            blocked until both are done
 *   |- report/0
 *   `- report/1       blocked until its own child is done
 *      `- report/1/0
 */
import { InvalidFlowError } from "./errors.ts";
import { planJob } from "./job-plan.ts";
import type { JobOptions } from "./options.ts";
import { encodeRecord } from "./record.ts";
import type { NewJob } from "./store.ts";

/** A job with the jobs it waits for. */
export interface FlowJob {
  readonly name: string;
  readonly data?: unknown;
  /** Only the root may have an id of its own. */
  readonly options?: JobOptions;
  readonly children?: readonly FlowJob[];
  /** What a failed child does to this job. @default "fail" */
  readonly onChildFailure?: "fail" | "continue";
}

/** The outcome of one child. */
export type ChildOutcome =
  | { readonly id: string; readonly state: "completed"; readonly result: unknown }
  | { readonly id: string; readonly state: "failed"; readonly failure: unknown }
  | { readonly id: string; readonly state: "unknown" };

/** All jobs of a flow are added by one script call, which must stay short. */
const MOST_JOBS = 10_000;

/** A flow's jobs, parents before their children. */
export function planFlow(root: FlowJob, id: string): NewJob[] {
  const jobs: NewJob[] = [];
  const visit = (job: FlowJob, jobId: string, parent: string | undefined) => {
    if (jobs.length >= MOST_JOBS) throw new InvalidFlowError(`it has more than ${MOST_JOBS} jobs`);
    jobs.push(planOne(job, jobId, parent));
    job.children?.forEach((child, i) => {
      if (child.options?.id !== undefined) {
        throw new InvalidFlowError(`child ${child.name} has an id of its own`);
      }
      visit(child, `${jobId}/${i}`, jobId);
    });
  };
  visit(root, id, undefined);
  return jobs;
}

function planOne(job: FlowJob, id: string, parent: string | undefined): NewJob {
  const { placement, options } = planJob(job.options);
  const children = job.children?.length ?? 0;
  if (children > 0 && (placement?.d ?? placement?.at ?? placement?.k) !== undefined) {
    throw new InvalidFlowError(`job ${job.name} waits for its children, not for a time or a key`);
  }
  const where = children > 0 ? { ...placement, b: 1, n: children } : placement;
  const record = encodeRecord(job.name, job.data, {
    ...options,
    ...(parent === undefined ? {} : { f: parent }),
    ...(children === 0 ? {} : { n: children }),
    ...(job.onChildFailure === "continue" ? { c: 1 as const } : {}),
  });
  return { id, where: where === undefined ? "" : JSON.stringify(where), record };
}

/** Reads what `kids` holds of a child. */
export function readOutcome(id: string, text: string | null): ChildOutcome {
  if (text === null) return { id, state: "unknown" };
  const json = text.slice(1);
  const value: unknown = json === "" ? undefined : JSON.parse(json);
  return text.startsWith("c")
    ? { id, state: "completed", result: value }
    : { id, state: "failed", failure: value };
}
