/** The tasks' part of a round. Every change is guarded by the round's lock and by the task itself. */
import { concurrently } from "../concurrently.ts";
import { childrenOf, keys } from "../keys.ts";
import { type Placement, stillUsable } from "../nodes/placement.ts";
import { absent, getMany, rangeAll, recordOf, unchanged } from "../record.ts";
import type { Compare, Entry, Store } from "../store/store.ts";
import { taskOperations } from "../tasks/indexes.ts";
import { isPending, isRunning } from "../tasks/status.ts";
import { type Task, taskOf } from "../tasks/task.ts";
import { TaskRecords } from "../tasks/task-records.ts";
import type { Alerts } from "./alerts.ts";

/** What it works with. */
export interface TaskInspectionPlan {
  readonly store: Store;
  readonly alerts: Alerts;
  readonly placement: Placement;
  /** The round's lock. */
  readonly guard: Compare;
}

/** The most tasks placed, and alerts raised, in one round. */
const MOST_PER_ROUND = 1_000;
/** The most tasks and alerts that are changed at the same time. */
const MOST_AT_ONCE = 16;
const REQUEST_LIFE_MS = 24 * 3_600_000;

/** The tasks' part of one round. */
export class TaskInspection {
  readonly #plan: TaskInspectionPlan;
  readonly #records: TaskRecords;

  constructor(plan: TaskInspectionPlan) {
    this.#plan = plan;
    this.#records = new TaskRecords(plan.store);
  }

  /** Deals with the tasks of a node that is offline. */
  async leave(nodeId: string, taskIds: readonly string[]): Promise<void> {
    await this.#each(taskIds, async ({ task, entry }) => {
      if (task.nodeId !== nodeId) return;
      if (isRunning(task.status)) await this.#leaveRunning(task, entry);
      else if (isPending(task.status)) await this.#leavePending(task, entry);
    });
  }

  /**
   * Removes owner keys without a lease, a page per round; returns where the next round goes on. Nodes write
   * owner keys with their lease. One that another program wrote without it would keep its task from running
   * for ever. If its run still goes on, the fence at the target refuses its writes.
   */
  async releaseOwners(after: string | undefined): Promise<string | undefined> {
    const { store, guard } = this.#plan;
    const { entries, more } = await store.range(keys.owners, { after, limit: MOST_PER_ROUND });
    const lasting = entries.filter(({ lease }) => lease === undefined);
    await concurrently(lasting, MOST_AT_ONCE, (entry) =>
      store.txn({
        if: [guard, unchanged(entry.key, entry)],
        do: [{ op: "delete", key: entry.key }],
      }),
    );
    return more ? entries.at(-1)?.key : undefined;
  }

  /** Places tasks that wait for a node, a page per round; returns where the next round goes on. */
  async placeWaiting(after: string | undefined): Promise<string | undefined> {
    const prefix = keys.tasksOfStatus("CREATED");
    const page = { after, limit: MOST_PER_ROUND };
    const { entries, more } = await this.#plan.store.range(prefix, page);
    await this.#each(childrenOf(prefix, entries), async ({ task, entry }) => {
      if (task.status !== "CREATED" || task.desired !== "run" || task.nodeId !== "") return;
      // Nodes that refused it may have room now.
      await this.#replace({ ...task, refusedBy: [] }, entry);
    });
    return more ? entries.at(-1)?.key : undefined;
  }

  /** Takes running tasks away from drained nodes. */
  async drain(): Promise<void> {
    const { store } = this.#plan;
    const { entries } = await rangeAll(store, keys.drains);
    for (const nodeId of childrenOf(keys.drains, entries)) {
      const prefix = keys.tasksOfNode(nodeId);
      const assigned = await rangeAll(store, prefix);
      await this.#each(childrenOf(prefix, assigned.entries), async ({ task, entry }) => {
        if (task.desired === "run" && task.nodeId === nodeId) await this.#handOver(task, entry);
      });
    }
  }

  /**
   * Raises an alert for every task that is BROKEN, once for each time it broke, and resolves those of
   * tasks that are not any more, and of nodes that are not known any more. Alerts that were not sent are
   * sent again.
   */
  async alertBroken(nodes: ReadonlySet<string>): Promise<void> {
    const { store, alerts } = this.#plan;
    const prefix = keys.tasksOfStatus("BROKEN");
    const { entries } = await rangeAll(store, prefix);
    const broken = new Set(childrenOf(prefix, entries));
    const open = await alerts.open();
    const known = new Set([...open.values()].map(({ subject }) => subject));
    const newFirst = [...broken].sort((a, b) => Number(known.has(a)) - Number(known.has(b)));
    const current = new Map<string, string>();
    await this.#each(newFirst.slice(0, MOST_PER_ROUND), async ({ task }) => {
      const { taskId, taskName, epoch, reason, groupId } = task;
      if (task.status !== "BROKEN") return void broken.delete(taskId); // it was started meanwhile
      const cause = `task-broken:${taskId}:${epoch}`;
      current.set(taskId, cause);
      const raised = open.get(cause);
      if (raised?.group === groupId) return;
      if (raised !== undefined) return alerts.regroup(cause, groupId); // the task is in another group now
      const text = `Task ${taskName} (${taskId}) is BROKEN: ${reason}`;
      await alerts.raise({ kind: "task-broken", cause, text, subject: taskId, group: groupId });
    });
    await concurrently(open.values(), MOST_AT_ONCE, async (alert) => {
      const { kind, subject, cause } = alert;
      const mended = !broken.has(subject) || (current.get(subject) ?? cause) !== cause;
      const ofNode = kind === "node-offline" || kind === "node-unreachable";
      const over = kind === "task-broken" ? mended : ofNode && !nodes.has(subject);
      if (over) await alerts.resolve(cause);
      else void alerts.send(alert);
    });
  }

  /** Forgets idempotency keys after a day, a page per round; returns where the next round goes on. */
  async forgetRequests(after: string | undefined): Promise<string | undefined> {
    const { store } = this.#plan;
    const { entries, more } = await store.range(keys.requests, { after, limit: 100 });
    const before = Date.now() - REQUEST_LIFE_MS;
    const old = entries.filter((entry) => (recordOf<{ at: number }>(entry)?.at ?? 0) < before);
    if (old.length > 0) await store.txn({ do: old.map(({ key }) => ({ op: "delete", key })) });
    return more ? entries.at(-1)?.key : undefined;
  }

  async #leaveRunning(task: Task, entry: Entry): Promise<void> {
    const { nodeId } = task;
    const reason = `node ${nodeId} is offline`;
    if (task.desired === "stop") await this.#change(task, entry, { status: "STOP", reason: "" });
    else if (task.immortal) await this.#replace(task, entry);
    else await this.#change(task, entry, { status: "BROKEN", desired: "stop", reason });
  }

  /** A task that a node should have started, or started without reporting it. */
  async #leavePending(task: Task, entry: Entry): Promise<void> {
    const isNew = task.status === "CREATED"; // no node has started it yet
    if (task.desired === "run") await this.#replace(task, entry);
    else if (!isNew) await this.#change(task, entry, { status: "STOP", reason: "" });
  }

  /** Places a task that no node runs on another node; without one it waits as CREATED. */
  async #replace(task: Task, entry: Entry): Promise<void> {
    const { type, nodeId } = task;
    const except = [...task.refusedBy, ...(nodeId === "" ? [] : [nodeId])];
    const found = await this.#plan.placement.choose({ type, except });
    if (found.nodeId !== undefined) {
      const reason = nodeId === "" ? "" : `moved here because node ${nodeId} is offline`;
      await this.#change(task, entry, { nodeId: found.nodeId, status: "CREATING", reason });
    } else if (nodeId !== "" || task.reason !== found.reason) {
      await this.#change(task, entry, { nodeId: "", status: "CREATED", reason: found.reason });
    }
  }

  /** Hands a running task over to another node. The present node stops it first. */
  async #handOver(task: Task, entry: Entry): Promise<void> {
    const { type, nodeId } = task;
    const found = await this.#plan.placement.choose({ type, except: [nodeId] });
    if (found.nodeId === undefined) return;
    const reason = `moved because node ${nodeId} is drained`;
    await this.#change(task, entry, { nodeId: found.nodeId, reason, whileRunning: true });
  }

  async #change(
    task: Task,
    entry: Entry,
    change: Partial<Task> & { readonly whileRunning?: boolean },
  ): Promise<void> {
    const { whileRunning = false, ...changed } = change;
    const { store, guard } = this.#plan;
    const { taskId, epoch } = task;
    const at = Date.now();
    const next: Task = { ...task, ...changed, generation: task.generation + 1, updateTime: at };
    const event = { at, event: next.status, detail: next.reason, nodeId: next.nodeId, epoch };
    const given = next.nodeId !== "" && next.nodeId !== task.nodeId;
    const { succeeded } = await store.txn({
      if: [
        guard,
        unchanged(keys.task(taskId), entry),
        ...(given ? stillUsable(next.nodeId) : []),
        // While the owner key is there, its node may still be writing.
        ...(whileRunning ? [] : [absent(keys.owner(taskId))]),
      ],
      do: [...taskOperations(taskOf(entry), next), this.#records.eventOperation(taskId, event)],
    });
    if (succeeded) await this.#records.trimNowAndThen(next);
  }

  /** Calls a function for each task that exists, several at the same time. */
  async #each(
    taskIds: readonly string[],
    work: (found: { readonly task: Task; readonly entry: Entry }) => Promise<void>,
  ): Promise<void> {
    await concurrently(await this.#load(taskIds), MOST_AT_ONCE, work);
  }

  async #load(taskIds: readonly string[]): Promise<{ task: Task; entry: Entry }[]> {
    const paths = taskIds.map((taskId) => keys.task(taskId));
    const entries = paths.length === 0 ? [] : await getMany(this.#plan.store, paths);
    return entries.flatMap((entry) => {
      const task = taskOf(entry);
      return task === undefined || entry === undefined ? [] : [{ task, entry }];
    });
  }
}
