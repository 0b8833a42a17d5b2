/**
 * Runs tasks of one type. The cluster decides where and when; the runner does the work. Sync is the
 * first one, `scripted` the second.
 *
 * A run is given an epoch, its fencing token. Before it writes anything to a target it must raise the
 * target's fence to that epoch, and from then on write only if the fence is still there: a run whose
 * node was thought dead, and came back, is refused by the target itself.
 */
import type { Logger } from "@ropeway/core";
import type { Json } from "./secrets.ts";
import type { TaskProgress } from "./tasks/task.ts";

/** Phases of a run, as its status shows them. */
export type RunPhase = "STARTING" | "RDBRUNNING" | "COMMANDRUNNING" | "FAILOVER";

/** The position of a run in its source. */
export interface RunOffset {
  readonly replId: string;
  readonly replOffset: string;
  readonly db?: number;
}

/** A key that is recorded. */
export interface KeyRecord {
  readonly key: string;
  /** What was done with it, such as split, or why it could not be written. */
  readonly command: string;
  /** Its Redis type. */
  readonly type: string;
}

/**
 * The argument of run(): the task, and methods that report its state. Reports are merged and stored at
 * intervals.
 */
export interface Run {
  readonly taskId: string;
  readonly taskName: string;
  readonly epoch: number;
  /** The configuration with its secrets. */
  readonly config: Json;
  /** Start from the beginning, whatever the checkpoint says. */
  readonly afresh: boolean;
  /** It may use the server of the installation itself, files of its node and HTTP addresses; see NewTask. */
  readonly local: boolean;
  /** Aborts when the run must stop. No write may follow. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  phase(phase: RunPhase): void;
  progress(progress: TaskProgress): void;
  offset(offset: RunOffset): void;
  bigKey(record: KeyRecord): void;
  discarded(record: KeyRecord): void;
}

/** Runs the tasks of one type. */
export interface Runner {
  readonly type: string;
  /**
   * Refuses a configuration with an InvalidArgumentError that names the field; returns it complete. Without
   * `local` it must not use files of the node or HTTP addresses; see NewTask.
   */
  validate(config: Json, rights?: { readonly local: boolean }): Json;
  /**
   * Runs a task. Resolves when the task is finished (FINISH), rejects when it cannot continue (BROKEN).
   * After `signal` aborted it settles as soon as it has stopped, either way.
   */
  run(run: Run): Promise<void>;
}
