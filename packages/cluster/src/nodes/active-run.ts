/**
 * One run of one task on this node, from the claim to the release:
 *
 *   claimed (owner key created: epoch) --> fenced status STARTING --> runner --> release
 *
 * Every write is guarded by the owner key's create revision. Once that is no longer ours, the run is
 * stopped, and its reports are not stored any more.
 */
import { type Clock, LeaseLostError, type Logger, localClock } from "@ropeway/core";
import { type Deferred, deferred, guardSignal, reasonOf, sleep } from "@ropeway/core/internal";
import { ConflictError } from "../errors.ts";
import { keys } from "../keys.ts";
import { createdAt, putRecord } from "../record.ts";
import type { KeyRecord, Run, Runner, RunOffset, RunPhase } from "../runner.ts";
import type { SecretBox } from "../secrets.ts";
import type { Operation, Store } from "../store/store.ts";
import { taskOperations } from "../tasks/indexes.ts";
import { mayBecome } from "../tasks/status.ts";
import { type Task, type TaskProgress, taskOf } from "../tasks/task.ts";
import type { KeyRecordKind, TaskRecords } from "../tasks/task-records.ts";
import { keyRecordOf, MOST_REPORT, reportOf } from "./run-report.ts";

/** What a run needs. */
export interface ActiveRunPlan {
  readonly store: Store;
  readonly records: TaskRecords;
  readonly secrets: SecretBox;
  readonly runner: Runner;
  readonly nodeId: string;
  readonly taskId: string;
  readonly epoch: number;
  /** The task as the claim found it, and its revision. */
  readonly known: KnownTask;
  readonly progressMs: number;
  readonly logger: Logger;
  readonly clock?: Clock;
}

/** A task as it was at a revision. */
interface KnownTask {
  readonly task: Task;
  readonly modRevision: number;
}

/** Why a run was stopped. */
export type StopReason = "stopped" | "moved" | "lost" | "closing";

/** How the runner ended: by itself, with or without an error, or because it was stopped. */
interface Outcome {
  /** What the runner threw; in an object, because it may have thrown undefined. */
  readonly failed: { readonly failure: unknown } | undefined;
  readonly stopped: StopReason | undefined;
}

/** The maximum number of records of keys that wait to be stored; the runner counts the rest. */
const MOST_WAITING = 500;
const KEYS_PER_WRITE = 100;
/** The characters of a reason that are stored. */
const MOST_REASON = 2_000;
const MOST_CONFLICTS = 20;
/** How often a node that closes tries to store the end of a run. */
const FINISH_TRIES = 5;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 2_000;

/** A run under way. */
export class ActiveRun {
  readonly epoch: number;
  readonly #plan: ActiveRunPlan;
  readonly #abort = new AbortController();
  readonly #signal: AbortSignal;
  /** Resolves when the owner key is lost: later responses of the store do not matter any more. */
  readonly #lost: Deferred<undefined> = deferred();
  readonly #clock: Clock;
  #phase: RunPhase = "STARTING";
  #progress: TaskProgress = {};
  #offset: RunOffset | undefined;
  #dirty = false;
  readonly #waiting: { readonly kind: KeyRecordKind; readonly record: KeyRecord }[] = [];
  #flushing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopped: StopReason | undefined;
  #closing = false;
  #begun = false;
  #refused = false;
  #known: KnownTask;

  constructor(plan: ActiveRunPlan) {
    this.#plan = plan;
    this.epoch = plan.epoch;
    this.#known = plan.known;
    this.#clock = plan.clock ?? localClock;
    this.#signal = guardSignal(this.#abort.signal, (error) => {
      const { logger, taskId } = plan;
      logger.error({ err: reasonOf(error), taskId }, "an abort listener of a runner failed");
    });
  }

  get stopping(): StopReason | undefined {
    return this.#stopped;
  }

  /** Stops the run. The first reason counts, but a loss overrides it. */
  stop(reason: StopReason): void {
    if (this.#stopped === undefined || reason === "lost") this.#stopped = reason;
    if (reason === "closing") this.#closing = true;
    if (reason === "lost") this.#lost.resolve(undefined);
    if (!this.#abort.signal.aborted) this.#abort.abort(new LeaseLostError(this.#plan.taskId));
  }

  /**
   * Runs the task and writes how it ended. Never rejects. A run that is lost ends with its runner: it does
   * not wait for a store that may be away, because its node comes back only after all its runs have ended.
   * As long as the node holds its lease, the run lasts until its end is stored: a task whose end is not
   * stored would be run again.
   */
  async run(): Promise<void> {
    const { logger, taskId } = this.#plan;
    const failed = await this.#execute();
    const stopped = this.#stopped; // later stops do not change how it ended
    for (let tries = 1; this.#stopped !== "lost"; tries++) {
      try {
        return await this.#unlessLost(this.#finish({ failed, stopped }));
      } catch (error) {
        const err = reasonOf(error);
        const level = tries === 1 ? "warn" : "debug";
        logger[level]({ err, taskId, tries }, "the end of a run could not be stored yet");
        if (this.#closing && tries >= FINISH_TRIES) return; // the lease ends with the node
        await this.#unlessLost(sleep(pauseMs(tries)));
      }
    }
  }

  async #execute(): Promise<Outcome["failed"]> {
    const { runner, taskId, secrets } = this.#plan;
    try {
      const task = await this.#announce();
      if (task === undefined || this.#stopped !== undefined) return undefined;
      this.#begun = true;
      this.#timer = setInterval(() => this.#flushSoon(), this.#plan.progressMs);
      const config = secrets.open(task, taskId);
      await runner.run(this.#runOf(task, config));
      return undefined;
    } catch (failure) {
      return { failure };
    } finally {
      clearInterval(this.#timer);
      await this.#unlessLost(this.#flushing);
    }
  }

  /** Writes STARTING as soon as the store is reachable. An unreachable store is not a failure of the task. */
  async #announce(): Promise<Task | undefined> {
    const { nodeId, taskId, logger } = this.#plan;
    for (let tries = 1; !this.#abort.signal.aborted; tries++) {
      const writing = this.#write("running", (now) => {
        // The task was stopped or moved after the claim: the run does not begin.
        if (now.desired !== "run" || now.nodeId !== nodeId) this.stop("stopped");
        return this.#stopped === undefined ? { ...now, status: "STARTING", reason: "" } : now;
      });
      try {
        return await this.#unlessLost(writing);
      } catch (error) {
        logger.warn({ err: reasonOf(error), taskId, tries }, "a run could not be announced yet");
        await sleep(pauseMs(tries), this.#abort.signal).catch(() => {}); // the loop checks the signal
      }
    }
    return undefined;
  }

  #unlessLost<T>(promise: Promise<T> | undefined): Promise<T | undefined> {
    return Promise.race([promise, this.#lost.promise]);
  }

  #runOf(task: Task, config: Run["config"]): Run {
    const changed = () => {
      this.#dirty = true;
    };
    const note = (kind: KeyRecordKind, record: KeyRecord) => {
      const checked = keyRecordOf(kind, record);
      if (this.#waiting.length < MOST_WAITING) this.#waiting.push({ kind, record: checked });
      changed();
    };
    return {
      taskId: task.taskId,
      taskName: task.taskName,
      epoch: this.epoch,
      config,
      afresh: task.afresh,
      local: task.local === true,
      signal: this.#signal,
      logger: this.#plan.logger,
      phase: (phase) => {
        if (phase === this.#phase) return;
        this.#phase = phase;
        changed();
        this.#flushSoon();
      },
      progress: (progress) => {
        const next = reportOf("progress", { ...this.#progress, ...progress });
        if (next === undefined) return this.#refuseReport();
        this.#progress = next;
        changed();
      },
      offset: (offset) => {
        const next = reportOf("offset", offset);
        if (next === undefined) return this.#refuseReport();
        this.#offset = next;
        changed();
      },
      bigKey: (record) => note("bigKeys", record),
      discarded: (record) => note("discarded", record),
    };
  }

  /** Keeps the last progress or offset that can be stored. Logs once that a later one cannot be stored. */
  #refuseReport(): void {
    const { taskId, logger } = this.#plan;
    const allowed = `at most ${MOST_REPORT} characters of JSON can be stored`;
    logger[this.#refused ? "debug" : "warn"]({ taskId }, `a run reports too much: ${allowed}`);
    this.#refused = true;
  }

  #flushSoon(): void {
    if (!this.#dirty || this.#flushing !== undefined || this.#abort.signal.aborted) return;
    const phase = this.#phase;
    this.#flushing = this.#flush().then(
      () => {
        this.#flushing = undefined;
        // A phase that came meanwhile is stored at once; progress waits for its interval.
        if (this.#phase !== phase) this.#flushSoon();
      },
      (error) => {
        this.#flushing = undefined;
        this.#dirty = true; // the next interval tries again
        this.#plan.logger.debug({ err: reasonOf(error) }, "progress was not stored");
      },
    );
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
    if (this.#waiting.length === 0) return;
    await this.#storeKeys();
    await records.trim(taskId);
  }

  /** Stores the keys that wait, if this run still owns the task; those that fail wait on. */
  async #storeKeys(): Promise<void> {
    const { taskId, records, store } = this.#plan;
    while (this.#waiting.length > 0) {
      const part = this.#waiting.slice(0, KEYS_PER_WRITE);
      const operations = part.map(({ kind, record }) =>
        records.keyOperation(kind, taskId, { ...record, at: this.#now() }),
      );
      const distinct = new Map(operations.map((operation) => [operation.key, operation]));
      const { succeeded } = await store.txn({
        if: [createdAt(keys.owner(taskId), this.epoch)],
        do: [...distinct.values()],
      });
      if (!succeeded) return this.stop("lost");
      this.#waiting.splice(0, part.length);
    }
  }

  async #finish({ failed, stopped }: Outcome): Promise<void> {
    const { taskId, nodeId } = this.#plan;
    const ended = (task: Task): Task => {
      const mine = task.nodeId === nodeId;
      if (stopped !== undefined && task.desired === "run") {
        // The task continues on another node, or here when the node is back.
        const reason = mine ? `node ${nodeId} was stopped` : task.reason;
        return { ...task, status: "CREATING", reason, generation: task.generation + 1 };
      }
      if (stopped !== undefined) return { ...task, status: "STOP", reason: "" };
      if (failed === undefined) return { ...task, status: "FINISH", desired: "stop", reason: "" };
      const reason = reasonOf(failed.failure).slice(0, MOST_REASON);
      return { ...task, status: "BROKEN", desired: "stop", reason };
    };
    const release: Operation = { op: "delete", key: keys.owner(taskId) };
    if (this.#waiting.length > 0) await this.#storeKeys();
    const progress = () => (this.#begun ? { progress: this.#progress } : {});
    await this.#write(undefined, (task) => ({ ...ended(task), ...progress() }), [release]);
    await this.#plan.records.trim(taskId);
  }

  /**
   * Changes the task if this run still owns it; undefined, and the run is stopped, if not. It reads only
   * after another writer has changed the task, because it knows what it wrote last.
   */
  async #write(
    event: string | undefined,
    change: (task: Task) => Task,
    more: readonly Operation[] = [],
  ): Promise<Task | undefined> {
    const { store, taskId } = this.#plan;
    const owner = keys.owner(taskId);
    for (let conflicts = 0; conflicts < MOST_CONFLICTS; conflicts++) {
      const { task, modRevision } = this.#known;
      const next: Task = { ...change(task), epoch: this.epoch, updateTime: this.#now() };
      const changes = taskOperations(task, next);
      const result = await store.txn({
        if: [
          { key: keys.task(taskId), target: "mod", is: "=", than: modRevision },
          createdAt(owner, this.epoch),
        ],
        do: [...changes, ...this.#notes(event, task, next), ...more],
        else: [
          { op: "get", key: keys.task(taskId) },
          { op: "get", key: owner },
        ],
      });
      if (result.succeeded) {
        const wrote = changes.length > 0;
        this.#known = { task: next, modRevision: wrote ? result.revision : modRevision };
        return next;
      }
      const [entry, held] = result.found;
      const found = taskOf(entry);
      if (held?.createRevision !== this.epoch || entry === undefined || found === undefined) {
        this.stop("lost");
        return undefined;
      }
      this.#known = { task: found, modRevision: entry.modRevision };
    }
    throw new ConflictError(`task ${taskId}`);
  }

  /** The offset, and an event if there is one. */
  #notes(event: string | undefined, before: Task, after: Task): Operation[] {
    const { taskId, nodeId, records } = this.#plan;
    const at = this.#now();
    const notes: Operation[] = [];
    if (this.#offset !== undefined) {
      const { replId, replOffset, db = 0 } = this.#offset;
      notes.push(putRecord(keys.offset(taskId), { replId, replOffset, db, epoch: this.epoch, at }));
    }
    const begins = event === "running" && before.epoch !== this.epoch;
    if (after.status !== before.status || begins) {
      const note = { at, event: event ?? after.status, detail: after.reason, nodeId };
      notes.push(records.eventOperation(taskId, { ...note, epoch: this.epoch }));
    }
    return notes;
  }

  #now(): number {
    return Math.floor(this.#clock.now());
  }
}

function pauseMs(tries: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), LONGEST_PAUSE_MS);
}
