/**
 * The life of a task. What its operator wants is `desired` (run or stop); what it does is `status`:
 *
 *               start                node claims            first phase         following the source
 *   CREATED ------------> CREATING ------------> STARTING ---------> RDBRUNNING ---------> COMMANDRUNNING
 *      ^ no node             ^                      |  ^                 |    <- full again -    |  ^
 *      '---------------------'                      |  '-- take-over ----+-----------------------'  |
 *      start |               | start                v                    v                       FAILOVER
 *            +--- STOP <-----+----- stop -----------+--------------------+
 *            +--- FINISH <--------- done -----------+--------------------+
 *            '--- BROKEN <--------- failed, or its node is gone and it is not immortal
 */
import { IllegalTransitionError } from "../errors.ts";

/** What a task does. The names are those that the store's paths use. */
export const TASK_STATUSES = [
  "CREATED",
  "CREATING",
  "STARTING",
  "RDBRUNNING",
  "COMMANDRUNNING",
  "FAILOVER",
  "STOP",
  "FINISH",
  "BROKEN",
] as const;
/** Where a task is in its life. */
export type TaskStatus = (typeof TASK_STATUSES)[number];

const ENDS = ["STOP", "FINISH", "BROKEN"] as const;

/** Where a task can go from each status. */
const TRANSITIONS: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  CREATED: ["CREATED", "CREATING", "STARTING", "STOP", "BROKEN"],
  CREATING: ["CREATED", "CREATING", "STARTING", "STOP", "BROKEN"],
  STARTING: ["CREATED", "CREATING", "STARTING", "RDBRUNNING", "COMMANDRUNNING", ...ENDS],
  RDBRUNNING: ["CREATED", "CREATING", "STARTING", "COMMANDRUNNING", "FAILOVER", ...ENDS],
  COMMANDRUNNING: ["CREATED", "CREATING", "STARTING", "RDBRUNNING", "FAILOVER", ...ENDS],
  FAILOVER: ["CREATED", "CREATING", "STARTING", "RDBRUNNING", "COMMANDRUNNING", ...ENDS],
  STOP: ["CREATED", "CREATING"],
  FINISH: ["CREATED", "CREATING"],
  BROKEN: ["CREATED", "CREATING", "STOP"],
};

/** Statuses in which a node runs the task, or ran it until it was lost. */
const RUNNING: ReadonlySet<TaskStatus> = new Set([
  "STARTING",
  "RDBRUNNING",
  "COMMANDRUNNING",
  "FAILOVER",
]);

/** Whether some node runs it, or should. */
export function isRunning(status: TaskStatus): boolean {
  return RUNNING.has(status);
}

/** Whether it waits to be run. */
export function isPending(status: TaskStatus): boolean {
  return status === "CREATED" || status === "CREATING";
}

/** Whether nothing happens until an operator starts it. */
export function isAtRest(status: TaskStatus): boolean {
  return (ENDS as readonly string[]).includes(status);
}

/** Whether the transition is allowed. */
export function mayBecome(from: TaskStatus, to: TaskStatus): boolean {
  return TRANSITIONS[from].includes(to);
}

/** Throws for a transition that is not in the table. */
export function checkTransition(taskId: string, from: TaskStatus, to: TaskStatus): void {
  if (!mayBecome(from, to)) throw new IllegalTransitionError(taskId, from, to);
}
