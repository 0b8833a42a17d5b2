/**
 * Makes the node run the tasks that the store assigns to it. It watches only the node's own
 * index, /tasks/node/{nodeId}/, which portals write again whenever the node has something to do, and
 * looks at several tasks at once, but never twice at the same task: two looks would find the same claim,
 * and each would start a run.
 *
 *   store says                          here          -> do
 *   mine, should run, no owner          not running   -> claim and run
 *   mine, should run, owner is another  not running   -> look again soon: it is being handed over
 *   mine, was running, not immortal     not running   -> BROKEN: the process that ran it is gone
 *   not mine, or should stop            running       -> stop
 *   not mine, or should stop, I am owner, not running -> release
 *
 * It lives as long as one session: when the lease is lost, every run stops, and the host with it.
 */

import type { Logger } from "@ropeway/core";
import { Loop, reasonOf, timeoutSignal, within } from "@ropeway/core/internal";
import { CompactedError } from "../errors.ts";
import { keys, lastPart } from "../keys.ts";
import {
  absent,
  createdAt,
  getMany,
  putRecord,
  rangeAll,
  recordOf,
  textOf,
  unchanged,
} from "../record.ts";
import type { Runner } from "../runner.ts";
import type { SecretBox } from "../secrets.ts";
import type { Session } from "../session.ts";
import { CLOSE_WITHIN_MS } from "../store/limits.ts";
import type { Entry, Operation, Store } from "../store/store.ts";
import { taskOperations } from "../tasks/indexes.ts";
import { isPending, isRunning } from "../tasks/status.ts";
import { type Task, taskOf } from "../tasks/task.ts";
import type { TaskRecords } from "../tasks/task-records.ts";
import { ActiveRun, type ActiveRunPlan, type StopReason } from "./active-run.ts";

/** What a host needs. */
export interface TaskHostPlan {
  readonly store: Store;
  readonly session: Session;
  readonly records: TaskRecords;
  readonly nodeId: string;
  readonly runners: readonly Runner[];
  readonly secrets: SecretBox;
  readonly maxTasks: number;
  readonly progressMs: number;
  readonly closeWithinMs: number;
  readonly logger: Logger;
  /** True while the node takes no new work; waiting tasks are checked again later. */
  isHeld(): boolean;
  onRun(taskId: string, epoch: number): void;
  onEnd(taskId: string, epoch: number): void;
}

const LOOK_AGAIN_MS = 250;
/** The maximum number of tasks that the host looks at, and claims, at the same time. */
const MOST_AT_ONCE = 16;
const LIST_EVERY_MS = 30_000;

/** The tasks on this node during one session. */
export class TaskHost {
  readonly #plan: TaskHostPlan;
  readonly #runs = new Map<string, { readonly run: ActiveRun; readonly done: Promise<void> }>();
  readonly #queue = new Set<string>();
  readonly #watcher: Loop;
  /** The checks under way, by task. */
  readonly #looks = new Map<string, Promise<void>>();
  /** The nodes that still own tasks which are being handed over to this one, by task. */
  readonly #givers = new Map<string, string>();
  /** The tasks to look at again after a pause. */
  readonly #again = new Set<string>();
  #pause: NodeJS.Timeout | undefined;
  /** A check failed: no other begins before the pause is over. */
  #failed = false;
  /** Claims under way; each of them may become a run. */
  #claiming = 0;
  #closing = false;
  /** Every run was told to stop: a claim that the store has confirmed only now starts no other. */
  #stopped = false;

  constructor(plan: TaskHostPlan) {
    this.#plan = plan;
    this.#watcher = new Loop({
      tick: (signal) => this.#watch(signal),
      onError: (error) => this.#warn(error, "cannot watch the node's tasks"),
      closeWithinMs: CLOSE_WITHIN_MS,
    });
    plan.session.signal.addEventListener("abort", () => this.stopAll("lost"), { once: true });
  }

  get size(): number {
    return this.#runs.size;
  }

  start(): void {
    this.#watcher.start();
  }

  /** Stops every run. */
  stopAll(reason: StopReason): void {
    for (const { run } of this.#runs.values()) run.stop(reason);
  }

  /**
   * Stops everything, and waits until it has stopped, within a bound. After a loss it does not wait for calls
   * to the store, which may be unreachable: without a session they change nothing.
   */
  async close(reason: StopReason): Promise<void> {
    this.#closing = true;
    clearTimeout(this.#pause);
    const resting = Promise.all([this.#watcher.close(), this.#lastLooks()]);
    if (reason !== "lost") await resting;
    this.#stopped = true;
    this.stopAll(reason);
    const ending = Promise.all([...this.#runs.values()].map(({ done }) => done));
    const { closeWithinMs, logger } = this.#plan;
    await within(ending, { timeoutMs: closeWithinMs, what: "stopping the tasks" }).catch((error) =>
      logger.error(
        { err: reasonOf(error) },
        "a task does not stop; the target's fence keeps it out",
      ),
    );
  }

  /** Lists, then watches; a list now and then finds what a watch might have missed. */
  async #watch(signal: AbortSignal): Promise<number> {
    const { store, nodeId } = this.#plan;
    const prefix = keys.tasksOfNode(nodeId);
    const { entries, revision } = await rangeAll(store, prefix);
    for (const taskId of this.#runs.keys()) this.#enqueue(taskId);
    for (const { key } of entries) this.#enqueue(lastPart(key));
    const bound = AbortSignal.any([signal, timeoutSignal(LIST_EVERY_MS)]);
    try {
      for await (const events of store.watch({ prefix, from: revision + 1, signal: bound })) {
        for (const { entry } of events) this.#enqueue(lastPart(entry.key));
      }
    } catch (error) {
      if (!(error instanceof CompactedError)) throw error;
    }
    return 0;
  }

  #enqueue(taskId: string): void {
    this.#queue.add(taskId);
    this.#lookOn();
  }

  /** Starts checks up to the maximum. */
  #lookOn(): void {
    for (const taskId of this.#queue) {
      const full = this.#looks.size >= MOST_AT_ONCE;
      if (full || this.#failed || this.#closing) return;
      if (this.#looks.has(taskId)) continue; // its next check begins when this one has ended
      this.#queue.delete(taskId);
      const look = this.#look(taskId).finally(() => {
        this.#looks.delete(taskId);
        this.#lookOn();
      });
      this.#looks.set(taskId, look);
    }
  }

  async #look(taskId: string): Promise<void> {
    try {
      await this.#reconcile(taskId);
    } catch (error) {
      if (!this.#failed) this.#warn(error, "cannot look at a task");
      this.#failed = true;
      this.#lookAgain(taskId);
    }
  }

  /** Looks at the task again after a pause. */
  #lookAgain(taskId: string): void {
    this.#again.add(taskId);
    if (this.#closing) return;
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined;
      this.#failed = false;
      for (const waiting of this.#again) this.#queue.add(waiting);
      this.#again.clear();
      this.#lookOn();
    }, LOOK_AGAIN_MS);
  }

  async #lastLooks(): Promise<void> {
    const looks = Promise.all(this.#looks.values());
    await within(looks, { timeoutMs: CLOSE_WITHIN_MS, what: "the last looks" }).catch(() => {});
  }

  #warn(error: unknown, what: string): void {
    const { logger, nodeId } = this.#plan;
    logger.warn({ err: reasonOf(error), nodeId }, what);
  }

  async #reconcile(taskId: string): Promise<void> {
    const { store, nodeId, session } = this.#plan;
    if (!session.alive) return;
    const [entry, owner] = await getMany(store, [keys.task(taskId), keys.owner(taskId)]);
    const task = taskOf(entry);
    const active = this.#runs.get(taskId);
    const giver = this.#givers.get(taskId);
    this.#givers.delete(taskId);
    const wanted = task?.nodeId === nodeId && task.desired === "run";
    if (active !== undefined) {
      if (!wanted) active.run.stop(task?.nodeId === nodeId ? "stopped" : "moved");
      if (active.run.stopping !== undefined) this.#lookAgain(taskId); // it may be wanted again
      return;
    }
    if (owner?.lease === session.lease && !wanted) return this.#release(task, entry, owner);
    if (task === undefined || entry === undefined || task.nodeId !== nodeId) return;
    if (owner !== undefined && owner.lease !== session.lease) {
      if (!wanted && !isRunning(task.status)) return;
      this.#givers.set(taskId, textOf(recordOf<{ nodeId?: unknown }>(owner)?.nodeId));
      return this.#lookAgain(taskId);
    }
    if (isRunning(task.status) && owner === undefined) {
      if (!wanted) return this.#settle(task, { entry }, { status: "STOP", reason: "" });
      if (!task.immortal) {
        const reason =
          giver === undefined || giver === nodeId
            ? `node ${nodeId} restarted or lost its lease while the task was running`
            : `node ${giver} was lost before it had handed the task over to node ${nodeId}`;
        return this.#settle(task, { entry }, { status: "BROKEN", desired: "stop", reason });
      }
    }
    if (wanted && this.#plan.isHeld()) {
      this.#lookAgain(taskId);
    } else if (wanted && (isPending(task.status) || isRunning(task.status))) {
      await this.#claim(task, entry, owner);
    }
  }

  async #claim(task: Task, entry: Entry, owner: Entry | undefined): Promise<void> {
    const { nodeId, session, runners, maxTasks } = this.#plan;
    const { taskId } = task;
    const runner = runners.find(({ type }) => type === task.type);
    if (runner === undefined || this.#runs.size >= maxTasks) {
      const why = runner === undefined ? `cannot run tasks of type ${task.type}` : "is full";
      const refusedBy = [...new Set([...task.refusedBy, nodeId])];
      const reason = `node ${nodeId} ${why}`;
      const change = { status: "CREATED", nodeId: "", refusedBy, reason } as const;
      return this.#settle(task, { entry, owner }, change);
    }
    if (!session.alive) return;
    // The claims under way may take what room is left, or fail.
    if (this.#runs.size + this.#claiming >= maxTasks) return this.#lookAgain(taskId);
    this.#claiming += 1; // until the run has begun: in between, its room would look free
    try {
      // Ours already: the response to an earlier claim was lost.
      const epoch = owner?.createRevision ?? (await this.#own(taskId, entry));
      if (epoch === undefined) return this.#lookAgain(taskId);
      if (this.#stopped) return; // the owner's key goes with the lease
      this.#begin({ taskId, epoch, runner, known: { task, modRevision: entry.modRevision } });
    } finally {
      this.#claiming -= 1;
    }
  }

  /** Creates the owner key; returns the epoch, or undefined if another was faster. */
  async #own(taskId: string, entry: Entry): Promise<number | undefined> {
    const { store, nodeId, session } = this.#plan;
    const key = keys.owner(taskId);
    const claimed = await store.txn({
      if: [absent(key), unchanged(keys.task(taskId), entry)],
      do: [putRecord(key, { nodeId, taskId }, session.lease)],
    });
    return claimed.succeeded ? claimed.revision : undefined;
  }

  #begin(claim: Pick<ActiveRunPlan, "taskId" | "epoch" | "runner" | "known">): void {
    const { session, onRun, onEnd } = this.#plan;
    const { taskId, epoch } = claim;
    const run = new ActiveRun({ ...this.#plan, ...claim });
    if (!session.alive) return;
    onRun(taskId, epoch);
    const done = run.run().finally(() => {
      this.#runs.delete(taskId);
      onEnd(taskId, epoch);
      if (!this.#closing) this.#enqueue(taskId);
    });
    this.#runs.set(taskId, { run, done });
  }

  /**
   * Releases a task whose run has ended here without a report, because the store was unreachable at that
   * moment.
   */
  async #release(task: Task | undefined, entry: Entry | undefined, owner: Entry): Promise<void> {
    const { store } = this.#plan;
    const taskId = lastPart(owner.key);
    const status = task?.desired === "run" ? "CREATING" : "STOP";
    // A task that should run and has not begun needs no change.
    const ended =
      task !== undefined &&
      entry !== undefined &&
      (isRunning(task.status) || (isPending(task.status) && status === "STOP"));
    const { succeeded } = await store.txn({
      if: [unchanged(keys.task(taskId), entry), createdAt(owner.key, owner.createRevision)],
      do: [
        { op: "delete", key: owner.key },
        ...(ended ? this.#change(task, { status, reason: "" }) : []),
      ],
    });
    if (!succeeded) this.#lookAgain(taskId);
  }

  /** Changes a task that no node runs. An owner key of ours, whose run never began, goes with the change. */
  async #settle(
    task: Task,
    { entry, owner }: { readonly entry: Entry; readonly owner?: Entry | undefined },
    change: Partial<Task>,
  ): Promise<void> {
    const { taskId } = task;
    const key = keys.owner(taskId);
    const { store, records } = this.#plan;
    const { succeeded } = await store.txn({
      if: [unchanged(keys.task(taskId), entry), createdAt(key, owner?.createRevision ?? 0)],
      do: [...this.#change(task, change), ...(owner ? [{ op: "delete", key } as const] : [])],
    });
    if (!succeeded) return this.#lookAgain(taskId);
    await records.trimNowAndThen({ ...task, generation: task.generation + 1 });
  }

  #change(task: Task, change: Partial<Task>): Operation[] {
    const { records, nodeId } = this.#plan;
    const { taskId, epoch } = task;
    const at = Date.now();
    const next: Task = { ...task, ...change, generation: task.generation + 1, updateTime: at };
    const event = { at, event: next.status, detail: next.reason, nodeId, epoch };
    return [...taskOperations(task, next), records.eventOperation(taskId, event)];
  }
}
