/**
 * One run of one task on this node, from the claim to the release:
 *
 *   claimed (owner key created: epoch) --> fenced status STARTING --> runner --> release
 *
 * Every write is guarded by the owner key's create revision. Once that is no longer ours, the run is
 * told to stop, and nothing it says is stored any more.
 */
import { type Clock, LeaseLostError, type Logger, localClock } from "@ropeway/core";
import { reasonOf } from "@ropeway/core/internal";
import { keys } from "../keys.ts";
import { createdAt, optimistically, putRecord, unchanged } from "../record.ts";
import type { KeyRecord, Run, Runner, RunOffset, RunPhase } from "../runner.ts";
import type { SecretBox } from "../secrets.ts";
import type { Operation, Store } from "../store/store.ts";
import { taskOperations } from "../tasks/indexes.ts";
import { mayBecome } from "../tasks/status.ts";
import { type Task, type TaskProgress, taskOf } from "../tasks/task.ts";
import type { TaskRecords } from "../tasks/task-records.ts";

/** What a run needs. */
export interface ActiveRunPlan {
  readonly store: Store;
  readonly records: TaskRecords;
  readonly secrets: SecretBox;
  readonly runner: Runner;
  readonly nodeId: string;
  readonly taskId: string;
  readonly epoch: number;
  readonly progressMs: number;
  readonly logger: Logger;
  readonly clock?: Clock;
}

/** Why a run was told to stop. */
export type StopReason = "stopped" | "moved" | "lost" | "closing";

/** How many records of keys wait to be stored; more are only counted. */
const MOST_WAITING = 500;

/** A run under way. */
export class ActiveRun {
  readonly epoch: number;
  readonly #plan: ActiveRunPlan;
  readonly #abort = new AbortController();
  readonly #clock: Clock;
  #phase: RunPhase = "STARTING";
  #progress: TaskProgress = {};
  #offset: RunOffset | undefined;
  #dirty = false;
  #waiting: { readonly kind: "bigKey" | "discarded"; readonly record: KeyRecord }[] = [];
  #flushing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopped: StopReason | undefined;

  constructor(plan: ActiveRunPlan) {
    this.#plan = plan;
    this.epoch = plan.epoch;
    this.#clock = plan.clock ?? localClock;
  }

  get stopping(): StopReason | undefined {
    return this.#stopped;
  }

  /** Tells the run to stop; the first reason counts, except that a loss overrides. */
  stop(reason: StopReason): void {
    if (this.#stopped === undefined || reason === "lost") this.#stopped = reason;
    if (!this.#abort.signal.aborted) this.#abort.abort(new LeaseLostError(this.#plan.taskId));
  }

  /** Runs the task and writes how it ended. Never rejects. */
  async run(): Promise<void> {
    const { logger, taskId } = this.#plan;
    try {
      const outcome = await this.#execute();
      await this.#finish(outcome);
    } catch (error) {
      // The store is away or the task is not ours any more: its lease ends, and others take over.
      logger.warn({ err: reasonOf(error), taskId }, "the end of a run could not be stored");
    } finally {
      clearTimeout(this.#timer);
    }
  }

  async #execute(): Promise<{ readonly failure?: unknown }> {
    const { runner, taskId, secrets } = this.#plan;
    try {
      const task = await this.#write("running", (now) => ({
        ...now,
        status: "STARTING",
        reason: "",
      }));
      if (task === undefined) return {};
      this.#timer = setInterval(() => this.#flushSoon(), this.#plan.progressMs);
      const config = secrets.open(task, taskId);
      await runner.run(this.#runOf(task, config));
      return {};
    } catch (failure) {
      return { failure };
    } finally {
      clearInterval(this.#timer);
      await this.#flushing;
    }
  }

  #runOf(task: Task, config: Run["config"]): Run {
    const changed = () => {
      this.#dirty = true;
    };
    const note = (kind: "bigKey" | "discarded", record: KeyRecord) => {
      if (this.#waiting.length < MOST_WAITING) this.#waiting.push({ kind, record });
      changed();
    };
    return {
      taskId: task.taskId,
      taskName: task.taskName,
      epoch: this.epoch,
      config,
      afresh: task.afresh,
      signal: this.#abort.signal,
      logger: this.#plan.logger,
      phase: (phase) => {
        if (phase === this.#phase) return;
        this.#phase = phase;
        changed();
        this.#flushSoon();
      },
      progress: (progress) => {
        this.#progress = { ...this.#progress, ...progress };
        changed();
      },
      offset: (offset) => {
        this.#offset = offset;
        changed();
      },
      bigKey: (record) => note("bigKey", record),
      discarded: (record) => note("discarded", record),
    };
  }

  #flushSoon(): void {
    if (!this.#dirty || this.#flushing !== undefined || this.#abort.signal.aborted) return;
    this.#flushing = this.#flush()
      .catch((error) => {
        this.#dirty = true; // the next one tries again
        this.#plan.logger.debug({ err: reasonOf(error) }, "progress was not stored");
      })
      .finally(() => {
        this.#flushing = undefined;
        if (this.#dirty && this.#phase !== "COMMANDRUNNING") setImmediate(() => this.#flushSoon());
      });
  }

  async #flush(): Promise<void> {
    this.#dirty = false;
    const { taskId, records } = this.#plan;
    const phase = this.#phase;
    await this.#write(phase, (task) => ({
      ...task,
      status: mayBecome(task.status, phase) ? phase : task.status,
      progress: this.#progress,
      // A run that follows its source has its checkpoint: from here on it resumes.
      afresh: phase === "COMMANDRUNNING" ? false : task.afresh,
    }));
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { kind, record } of waiting) await records[kind](taskId, record, this.#now());
    if (waiting.length > 0) await records.trim(taskId);
  }

  async #finish({ failure }: { readonly failure?: unknown }): Promise<void> {
    const { taskId, nodeId } = this.#plan;
    const stopped = this.#stopped;
    if (stopped === "lost") return;
    const ended = (task: Task): Task => {
      const mine = task.nodeId === nodeId;
      if (stopped !== undefined && task.desired === "run") {
        // It goes on elsewhere, or here when the node is back; nothing was cut off in between.
        const reason = mine ? `node ${nodeId} was stopped` : task.reason;
        return { ...task, status: "CREATING", reason, generation: task.generation + 1 };
      }
      if (stopped !== undefined) return { ...task, status: "STOP", reason: "" };
      if (failure === undefined) return { ...task, status: "FINISH", desired: "stop", reason: "" };
      return { ...task, status: "BROKEN", desired: "stop", reason: reasonOf(failure) };
    };
    const release: Operation = { op: "delete", key: keys.owner(taskId) };
    const progress = { progress: this.#progress };
    await this.#write(undefined, (task) => ({ ...ended(task), ...progress }), [release]);
    await this.#plan.records.trim(taskId);
  }

  /** Changes the task if this run still owns it; undefined, and the run is stopped, if not. */
  #write(
    event: string | undefined,
    change: (task: Task) => Task,
    more: readonly Operation[] = [],
  ): Promise<Task | undefined> {
    const { store, taskId, nodeId, records } = this.#plan;
    const owner = keys.owner(taskId);
    return optimistically<Task | undefined>(store, `task ${taskId}`, async () => {
      const [entry, held] = await Promise.all([store.get(keys.task(taskId)), store.get(owner)]);
      const task = taskOf(entry);
      if (held?.createRevision !== this.epoch || task === undefined) {
        this.stop("lost");
        return { do: [], result: undefined };
      }
      const next: Task = { ...change(task), epoch: this.epoch, updateTime: this.#now() };
      const noted = event ?? next.status;
      const said =
        next.status !== task.status || (event === "running" && task.epoch !== this.epoch);
      const note = {
        at: this.#now(),
        event: noted,
        detail: next.reason,
        nodeId,
        epoch: this.epoch,
      };
      const offset = this.#offset && {
        ...{ replId: this.#offset.replId, replOffset: this.#offset.replOffset },
        ...{ db: this.#offset.db ?? 0, epoch: this.epoch, at: this.#now() },
      };
      return {
        if: [unchanged(keys.task(taskId), entry), createdAt(owner, this.epoch)],
        do: [
          ...taskOperations(task, next),
          ...(offset === undefined ? [] : [putRecord(keys.offset(taskId), offset)]),
          ...(said ? [records.eventOperation(taskId, note)] : []),
          ...more,
        ],
        result: next,
      };
    });
  }

  #now(): number {
    return Math.floor(this.#clock.now());
  }
}
