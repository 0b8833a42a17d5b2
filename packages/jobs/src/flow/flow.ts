/**
 * A flow is a tree of jobs: a parent waits, blocked, until its last child has ended. A child's id is its
 * parent's id, a slash and its position, so the children of a parent need no list.
 *
 *   report            blocked until both are done
 *   |- report/0
 *   `- report/1       blocked until its own child is done
 *      `- report/1/0
 *
 * A child may be in another queue, perhaps on another node of a cluster. No script can reach both, so the
 * parent's queue stores the child as a message in its outbox, in the same step as the parent. A relay
 * delivers it, and returns the child's outcome in the same way (relay.ts). In the other queue its id begins
 * with the parent's queue, because two queues may have parents with the same id.
 *
 * Every flow has a token, which its jobs carry. An id can be used again while children of an earlier flow
 * with this id still exist. They have another token and do not count.
 */
import { randomBytes } from "node:crypto";
import { show } from "@ropeway/core/internal";
import type { AnyJobs, JobInput, JobName, JobTypes } from "../definition.ts";
import { InvalidFlowError, type JobFailure } from "../errors.ts";
import { checkName, checkQueueName } from "../name.ts";
import type { JobOptions } from "../options.ts";
import {
  checkNames,
  type JobPlan,
  type Placement,
  placementText,
  planJob,
  withDefaults,
} from "../queue/job-plan.ts";
import { encodeRecord } from "../record.ts";
import type { NewJob } from "../store/queue-store.ts";

/** The effect of a failed child on its parent: fail it, nothing, or nothing and the child is deleted. */
export type ChildPolicy = "fail" | "ignore" | "remove";

/** A job with the jobs it waits for. */
export interface FlowJob {
  readonly name: string;
  readonly data?: unknown;
  /** Only the root may have an id of its own. */
  readonly options?: JobOptions;
  /** The queue of this job, under the same prefix. @default its parent's */
  readonly queue?: string;
  readonly children?: readonly FlowJob[];
  /** The effect of this job's failure on its parent. @default the parent's `onChildFailure` */
  readonly onFailure?: ChildPolicy;
  /** The policy of children that do not set one. @default "fail" */
  readonly onChildFailure?: ChildPolicy;
}

/** The root of a flow: a job of the queue it is added to. */
export type FlowRoot<Jobs extends JobTypes<Jobs> = AnyJobs> = {
  readonly [N in JobName<Jobs>]: Omit<FlowJob, "name" | "data" | "queue" | "onFailure"> & {
    readonly name: N;
  } & (undefined extends JobInput<Jobs, N>
      ? { readonly data?: JobInput<Jobs, N> }
      : { readonly data: JobInput<Jobs, N> });
}[JobName<Jobs>];

/** The outcome of one child. */
export type ChildOutcome =
  | { readonly id: string; readonly state: "completed"; readonly result: unknown }
  | { readonly id: string; readonly state: "failed"; readonly failure: JobFailure }
  | { readonly id: string; readonly state: "removed" }
  | { readonly id: string; readonly state: "pending" };

/** A message in the outbox: jobs to be added to another queue. */
export interface AddMessage {
  readonly kind: "add";
  /** When it was put into the outbox: ms of the Redis clock. */
  readonly at?: number;
  readonly queue: string;
  /** The child in its parent's queue, which gets an outcome if it cannot be added. */
  readonly parent: string;
  readonly child: string;
  readonly flow: string;
  /** The effect on the parent if it cannot be added: 0 fail, 1 ignore, 2 remove. */
  readonly policy: number;
  readonly jobs: readonly PlannedJob[];
}

/**
 * A job of a flow, or the message that carries it to another queue. A message contains other messages as objects.
 * As strings, each level would be twice as long as the level below.
 */
export type PlannedJob = NewJob | { readonly id: string; readonly message: AddMessage };

/** The planned job in the form that add.lua takes. */
export function newJobOf(job: PlannedJob): NewJob {
  if (!("message" in job)) return job;
  return { id: job.id, where: `o${JSON.stringify(job.message)}`, record: "" };
}

/** All jobs of a flow, or of one addChildren(), are added by one script call, which must stay short. */
const MOST_JOBS = 1_000;
const MOST_BYTES = 4 << 20;
/** The maximum number of children of a parent in total. The scripts contain this number, too. */
const MOST_CHILDREN = 10_000;
/** One script call fails the parent of a failed child, and all parents above it. */
const MOST_LEVELS = 100;
const POLICIES = { fail: 0, ignore: 1, remove: 2 } as const;
const KNOWN = new Set([
  "name",
  "data",
  "options",
  "queue",
  "children",
  "onFailure",
  "onChildFailure",
]);

/** The values that the jobs of a flow share. */
export interface FlowContext {
  /** The queue it is added to. */
  readonly queue: string;
  readonly defaults: JobOptions | undefined;
  readonly traceparent: string | undefined;
  /** The flow's token. @default a new one */
  readonly flow?: string;
}

/** Plans flows: turns a tree into jobs, parents before their children. */
export class FlowPlanner {
  readonly #context: FlowContext;
  readonly #flow: string;

  constructor(context: FlowContext) {
    this.#context = context;
    this.#flow = context.flow ?? newFlow();
  }

  /** The jobs for the root's queue. */
  plan(root: FlowJob, id: string): NewJob[] {
    const place = { queue: this.#context.queue };
    return checkBytes(this.#tree(root, checkName("job id", id), place).map(newJobOf));
  }

  /** The children that a running parent adds to the `before` ones it has. */
  planChildren(children: readonly FlowJob[], parent: string, before: number): NewJob[] {
    if (before + children.length > MOST_CHILDREN) {
      throw new InvalidFlowError(`job ${parent} would have more than ${MOST_CHILDREN} children`);
    }
    const jobs = children.map((child, i) => {
      if (child.children?.length)
        throw new InvalidFlowError("a child of a running job has children");
      const [job] = this.#child(child, { parent, place: before + i, queue: this.#context.queue });
      return newJobOf(job as PlannedJob);
    });
    return checkBytes(jobs);
  }

  #tree(job: FlowJob, id: string, at: Place): PlannedJob[] {
    const jobs: PlannedJob[] = [this.#one(job, id, at)];
    job.children?.forEach((child, place) => {
      const policy = child.onFailure ?? job.onChildFailure;
      const spot = { parent: id, place, queue: at.queue, ...(policy ? { policy } : {}) };
      jobs.push(...this.#child(child, spot));
    });
    return jobs;
  }

  /** The child and the jobs below it; as one message if the child belongs to another queue. */
  #child(child: FlowJob, spot: Spot): PlannedJob[] {
    if (child.options?.id !== undefined || child.options?.dedupe !== undefined) {
      const what = child.options.id === undefined ? "a dedupe key" : "an id of its own";
      throw new InvalidFlowError(`child ${child.name} has ${what}; its parent could not find it`);
    }
    const { parent, place, queue: home } = spot;
    const policy = child.onFailure ?? spot.policy ?? "fail";
    const code = POLICIES[policy];
    const queue = child.queue === undefined ? home : checkQueueName(child.queue);
    const id = `${parent}/${place}`;
    const above = { parent, ...(code === 0 ? {} : { policy: code }) };
    if (queue === home) return this.#tree(child, id, { queue, ...above });
    const jobs = this.#tree(child, `${home}:${id}`, { queue, ...above, home });
    const flow = this.#flow;
    const message: AddMessage = { kind: "add", queue, parent, child: id, flow, policy: code, jobs };
    return [{ id, message }];
  }

  #one(job: FlowJob, id: string, at: Place): NewJob {
    const { defaults, traceparent } = this.#context;
    const { id: _, ...wishes } = withDefaults(defaults, job.options) ?? {};
    if (at.parent !== undefined) delete (wishes as { dedupe?: unknown }).dedupe; // a default of the queue
    const { placement, options }: JobPlan = planJob(wishes);
    const children = job.children?.length ?? 0;
    if (children > 0 && (placement?.d ?? placement?.at ?? placement?.k) !== undefined) {
      throw new InvalidFlowError(`job ${job.name} waits for its children, not for a time or a key`);
    }
    const record = encodeRecord(job.name, job.data, {
      ...options,
      ...(at.parent === undefined ? {} : { f: at.parent }),
      ...(at.home === undefined ? {} : { q: at.home }),
      ...(at.policy === undefined ? {} : { c: at.policy }),
      ...(children === 0 ? {} : { n: children }),
      ...(children === 0 && at.parent === undefined ? {} : { y: this.#flow }),
      ...(traceparent === undefined ? {} : { x: traceparent }),
    });
    const where = children > 0 ? this.#blocked(placement, children) : placement;
    return { id, where: placementText(where), record };
  }

  #blocked(placement: Placement | undefined, children: number): Placement {
    return { ...placement, b: 1, n: children, y: this.#flow };
  }
}

/** Refuses jobs that are too large together for one script call. */
function checkBytes(jobs: NewJob[]): NewJob[] {
  const bytes = jobs.reduce((sum, { where, record }) => sum + where.length + record.length, 0);
  if (bytes <= MOST_BYTES) return jobs;
  throw new InvalidFlowError(
    `its jobs have ${bytes} characters together, more than ${MOST_BYTES}; keep large data elsewhere, or let a running job add its children in several calls of addChildren()`,
  );
}

/**
 * Refuses a value that is not a tree of jobs, or that is too large, before anything is planned. `level` is the
 * level of the given jobs: 1 is a root. Returns how many jobs there are below a root, including the `before` ones.
 */
export function checkTrees(trees: unknown, level: number = 1, before: number = 0): number {
  if (!Array.isArray(trees)) {
    throw new InvalidFlowError(`its jobs are ${show(trees)}, but must be an array`);
  }
  if (trees.length > 0 && level > MOST_LEVELS) {
    throw new InvalidFlowError(`it has more than ${MOST_LEVELS} levels`);
  }
  let jobs = before;
  for (const job of trees as (FlowJob | null | undefined)[]) {
    if (level > 1) jobs += 1;
    if (jobs > MOST_JOBS) {
      throw new InvalidFlowError(
        `it has more than ${MOST_JOBS} jobs below its root; a running job can add up to ${MOST_JOBS} children with each call of addChildren()`,
      );
    }
    if (typeof job !== "object" || job === null) {
      throw new InvalidFlowError(`a job is ${show(job)}, but must be an object`);
    }
    checkNames("", job, KNOWN);
    for (const policy of [job.onFailure, job.onChildFailure]) {
      if (policy === undefined) continue;
      if (typeof policy === "string" && Object.hasOwn(POLICIES, policy)) continue;
      throw new InvalidFlowError(`${show(policy)} is not a policy for failed children`);
    }
    if (job.children !== undefined) jobs = checkTrees(job.children, level + 1, jobs);
  }
  return jobs;
}

/** The level of a job in its flow, computed from its id: the positions at its end, and the root. */
export function levelOf(id: string): number {
  let level = 1;
  for (let rest = id; level <= MOST_LEVELS; level++) {
    const slash = rest.lastIndexOf("/");
    if (slash < 0 || !/^\d+$/.test(rest.slice(slash + 1))) break;
    rest = rest.slice(0, slash);
  }
  return level;
}

/** A token for a flow, or for the children that a job adds. */
export function newFlow(): string {
  return randomBytes(6).toString("base64url");
}

/** The queue and the parent of a job of a flow. */
interface Place {
  readonly queue: string;
  readonly parent?: string;
  readonly policy?: 1 | 2;
  /** The parent's queue, if that is another one. */
  readonly home?: string;
}

/** The position of a child below its parent. */
interface Spot {
  readonly parent: string;
  readonly place: number;
  readonly queue: string;
  readonly policy?: ChildPolicy;
}

/** The jobs of trees in `queue` that are in that queue themselves. */
export function* jobsIn(queue: string, trees: readonly FlowJob[], at?: string): Generator<FlowJob> {
  for (const job of trees) {
    const place = job.queue ?? at ?? queue;
    if (place === queue) yield job;
    yield* jobsIn(queue, job.children ?? [], place);
  }
}

/** The ids of a parent's children. */
export function childIds(parent: string, count: number): string[] {
  return Array.from({ length: count }, (_, place) => `${parent}/${place}`);
}

/** Decodes the outcome of a child from `children`. */
export function readOutcome(id: string, text: string | null): ChildOutcome {
  if (text === null) return { id, state: "pending" };
  if (text.startsWith("r")) return { id, state: "removed" };
  const json = text.slice(1);
  const value: unknown = json === "" ? undefined : JSON.parse(json);
  return text.startsWith("c")
    ? { id, state: "completed", result: value }
    : { id, state: "failed", failure: value as JobFailure };
}
