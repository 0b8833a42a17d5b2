/**
 * The tasks of a cluster, as operators see them: every method is one transaction that changes the task
 * and all its indexes, or nothing. Nodes notice what concerns them and act; see nodes/task-host.ts.
 */
import { type Clock, localClock, type Page } from "@ropeway/core";
import {
  ConflictError,
  DuplicateTaskError,
  IdempotencyError,
  IllegalTransitionError,
  ProtectedError,
  StoreUnavailableError,
  UnknownNodeError,
  UnknownTaskError,
  UnknownTaskTypeError,
} from "../errors.ts";
import type { ClusterIds } from "../ids.ts";
import { keys } from "../keys.ts";
import { checkId, checkTaskName } from "../names.ts";
import { isOnline } from "../nodes/node-record.ts";
import { type Placement, stillUsable } from "../nodes/placement.ts";
import { absent, getMany, optimistically, rangeAll, recordOf, unchanged } from "../record.ts";
import type { Runner } from "../runner.ts";
import type { Json, SecretBox } from "../secrets.ts";
import type { Entry, Store } from "../store/store.ts";
import {
  CREATE_TRIES,
  type CreateRequest,
  checkSize,
  createOnce,
  type NewTask,
  requestOf,
} from "./creation.ts";
import { flagsOf } from "./flags.ts";
import { taskOperations } from "./indexes.ts";
import { checkTransition, isAtRest, isPending, isRunning, type TaskStatus } from "./status.ts";
import { md5Of, type Task, taskOf } from "./task.ts";
import { listTasks, type TaskFilter } from "./task-list.ts";
import { TaskRecords } from "./task-records.ts";
import { refuseDuplicates, stillUnique } from "./uniqueness.ts";

/** What can be changed. Name, group and configuration only while the task is at rest. */
export interface TaskEdit {
  readonly name?: string | undefined;
  readonly group?: string | undefined;
  readonly config?: Json | undefined;
  /** Of the new configuration, see NewTask. @default false */
  readonly local?: boolean | undefined;
  readonly immortal?: boolean | undefined;
}

/** What the decision knows besides the task. */
interface Circumstances {
  /** After a conflict, which may come from outdated information about the nodes. */
  readonly fresh: boolean;
  readonly owner: Entry | undefined;
  /** What the change asked for. */
  readonly others: readonly (Entry | undefined)[];
}

/** A change: its event, and the paths that its decision needs to know. */
interface TaskChange {
  readonly event: string;
  readonly others?: readonly string[];
}

/** What becomes of a task. */
type Decision = (task: Task, circumstances: Circumstances) => Promise<Task>;

/** What the tasks work with. */
export interface TasksPlan {
  readonly store: Store;
  readonly ids: ClusterIds;
  readonly placement: Placement;
  readonly secrets: SecretBox;
  /** The types there are, with what they accept. */
  readonly runners: readonly Pick<Runner, "type" | "validate">[];
  readonly clock?: Clock;
  /** The groups whose tasks can be seen and changed. @default all */
  readonly groups?: readonly string[];
}

/** The tasks of one cluster. */
export class Tasks {
  readonly records: TaskRecords;
  readonly #plan: TasksPlan;
  readonly #store: Store;
  readonly #clock: Clock;

  /** @internal Made by Cluster. */
  constructor(plan: TasksPlan) {
    this.#plan = plan;
    this.#store = plan.store;
    this.#clock = plan.clock ?? localClock;
    this.records = new TaskRecords(plan.store);
  }

  /** The same tasks for a caller who may see these groups only: tasks of other groups are unknown. */
  ofGroups(groups: readonly string[] | undefined): Tasks {
    return groups === undefined ? this : new Tasks({ ...this.#plan, groups });
  }

  /** Creates a task; returns it, and whether an earlier request with the same key had done so. */
  async create(wish: NewTask): Promise<{ readonly task: Task; readonly repeated: boolean }> {
    const name = checkTaskName(wish.name);
    const { local = false, immortal = false, start = false } = flagsOf(wish);
    const config = this.#runnerOf(wish.type).validate(wish.config, { local });
    const request = requestOf(wish);
    const earlier = request && (await this.#earlier(request, wish.idempotencyKey ?? ""));
    if (earlier !== undefined) return { task: earlier, repeated: true };
    const taskId = await this.#plan.ids.next("task");
    const groupId =
      wish.group === undefined || wish.group === ""
        ? await this.#plan.ids.next("group")
        : checkId("the group", wish.group);
    const sealed = this.#sealed(config, taskId);
    const now = this.#now();
    const base: Task = {
      taskId,
      groupId,
      nodeId: "",
      taskName: name,
      type: wish.type,
      status: "CREATED",
      desired: "stop",
      immortal,
      ...(local && { local }),
      epoch: 0,
      afresh: true,
      reason: "",
      config: sealed.config,
      secrets: sealed.secrets,
      md5: md5Of(wish.type, name, sealed.config),
      progress: {},
      refusedBy: [],
      generation: 1,
      createTime: now,
      updateTime: now,
    };
    for (let tries = 1; ; tries++) {
      const run: Task = { ...base, desired: "run" };
      const task = start ? await this.#placed(run, tries > 1) : base;
      const note = this.#event(task, "created", task.reason);
      const stored = request && { ...request, body: this.#plan.secrets.digest(request.body) };
      const result = await createOnce(this.#store, { task, request: stored, note });
      const [name, md5] = result.found.map((entry) => recordOf<{ taskId: string }>(entry)?.taskId);
      // The holder is this task itself: the first attempt succeeded, and its response was lost.
      if (result.succeeded || name === taskId) return { task, repeated: false };
      // Another request was faster: the same one, or one for another task of the same name.
      const twin = request && (await this.#earlier(request, wish.idempotencyKey ?? ""));
      if (twin !== undefined) return { task: twin, repeated: true };
      if (name !== undefined) throw new DuplicateTaskError("name", task.taskName, name);
      if (md5 !== undefined) throw new DuplicateTaskError("md5", task.md5, md5);
      // Neither: the node that was chosen has just gone.
      if (tries === CREATE_TRIES) throw new ConflictError(`task ${taskId}`);
    }
  }

  /** The task; throws UnknownTaskError. */
  async get(taskId: string): Promise<Task> {
    return this.#visible(taskId, (await this.#read(taskId))[0]);
  }

  /** The id of the task with this name. */
  async idOfName(name: string): Promise<string | undefined> {
    const found = recordOf<{ taskId: string }>(
      await this.#store.get(keys.ofName(checkTaskName(name))),
    );
    return found?.taskId;
  }

  list(filter: TaskFilter = {}): Promise<Page<Task>> {
    return listTasks(this.#store, filter);
  }

  /** The number of tasks with a status. */
  async count(status: TaskStatus): Promise<number> {
    return (await rangeAll(this.#store, keys.tasksOfStatus(status))).entries.length;
  }

  /** Starts a task that is at rest. Without a node that takes it, it waits as CREATED. */
  start(taskId: string, options: { readonly afresh?: boolean | undefined } = {}): Promise<Task> {
    return this.#change(taskId, { event: "started" }, async (task, { fresh }) => {
      const waiting = isPending(task.status) && task.desired === "run";
      if (waiting || isRunning(task.status)) {
        throw new IllegalTransitionError(taskId, task.status, "STARTING");
      }
      const afresh = flagsOf(options).afresh ?? task.epoch === 0;
      return this.#placed({ ...task, desired: "run", afresh, reason: "", refusedBy: [] }, fresh);
    });
  }

  /** Stops a task. A running one becomes STOP when its node has stopped it. */
  stop(taskId: string): Promise<Task> {
    return this.#change(taskId, { event: "stopped" }, async (task, { owner }) => {
      if (isAtRest(task.status)) throw new IllegalTransitionError(taskId, task.status, "STOP");
      // While there is an owner, its node stops the run and writes STOP.
      const wish: Task = { ...task, desired: "stop", reason: "" };
      return owner === undefined ? { ...wish, status: "STOP" } : wish;
    });
  }

  /** Moves a task to a node. A running one is handed over: it never runs on both. */
  async move(taskId: string, nodeId: string): Promise<Task> {
    const node = keys.node("redissyncer", checkId("the node's id", nodeId));
    const change = { event: `moved to ${nodeId}`, others: [node, keys.drain(nodeId)] };
    return this.#change(taskId, change, async (task, { others: [holder, drain] }) => {
      if (!isOnline(holder)) throw new UnknownNodeError(nodeId);
      if (drain !== undefined) {
        throw new ProtectedError(`task ${taskId}`, `node ${nodeId} is drained`);
      }
      const status = task.desired === "run" && isPending(task.status) ? "CREATING" : task.status;
      return { ...task, nodeId, status, reason: "", refusedBy: [] };
    });
  }

  /** Takes a task away from a node that is drained. */
  async leave(taskId: string, nodeId: string): Promise<Task> {
    return this.#change(taskId, { event: `leaves ${nodeId}` }, async (task, { fresh }) => {
      if (task.nodeId !== nodeId || task.desired !== "run") return task;
      const next = await this.#plan.placement.choose({ type: task.type, except: [nodeId], fresh });
      return next.nodeId === undefined ? task : { ...task, nodeId: next.nodeId };
    });
  }

  /** Takes a task that is at rest off a node that is forgotten. */
  unplace(taskId: string, nodeId: string): Promise<Task> {
    return this.#change(taskId, { event: `leaves ${nodeId}` }, async (task) => {
      const idle = isAtRest(task.status) || (task.status === "CREATED" && task.desired === "stop");
      return idle && task.nodeId === nodeId ? { ...task, nodeId: "" } : task;
    });
  }

  edit(taskId: string, edit: TaskEdit): Promise<Task> {
    return this.#change(taskId, { event: "edited" }, async (task) => {
      const onlyImmortal =
        edit.name === undefined && edit.group === undefined && edit.config === undefined;
      const fresh = task.status === "CREATED" && task.desired === "stop";
      if (!onlyImmortal && !isAtRest(task.status) && !fresh) {
        throw new IllegalTransitionError(taskId, task.status, "edited");
      }
      const taskName = edit.name === undefined ? task.taskName : checkTaskName(edit.name);
      const groupId = edit.group === undefined ? task.groupId : checkId("the group", edit.group);
      const configured =
        edit.config === undefined ? task : this.#configured(task, edit.config, edit.local === true);
      const md5 = md5Of(task.type, taskName, configured.config);
      const immortal = flagsOf(edit).immortal ?? task.immortal;
      return { ...configured, taskName, groupId, md5, immortal };
    });
  }

  /**
   * Removes a task that is not running, with everything known about it. Throws ConflictError while its
   * node is still releasing it. If the store becomes unreachable meanwhile,
   * inspections remove the rest, see inspection/record-sweep.ts.
   */
  async remove(taskId: string): Promise<void> {
    await optimistically(this.#store, `task ${taskId}`, async () => {
      const [entry, owner] = await this.#read(taskId);
      const task = this.#visible(taskId, entry);
      if (isRunning(task.status) || (isPending(task.status) && task.desired === "run")) {
        throw new IllegalTransitionError(taskId, task.status, "removed");
      }
      // Its node is stopping it and will release it in a moment.
      if (owner !== undefined) throw new ConflictError(`task ${taskId}`);
      return {
        if: [unchanged(keys.task(taskId), entry), absent(keys.owner(taskId))],
        do: [...taskOperations(task, undefined), { op: "delete", key: keys.offset(taskId) }],
        result: undefined,
      };
    });
    await this.records.removeAll(taskId).catch((error) => {
      if (!(error instanceof StoreUnavailableError)) throw error;
    });
  }

  /** The last offset that was stored for display. */
  async offset(taskId: string): Promise<Record<string, unknown>> {
    await this.get(taskId);
    return this.records.offset(taskId);
  }

  #sealed(config: Json, taskId: string) {
    return checkSize(this.#plan.secrets.seal(config, taskId));
  }

  /** Finds a node for a task that should run; without one it waits. */
  async #placed(task: Task, fresh = false): Promise<Task> {
    const current =
      task.nodeId !== "" && (await this.#store.get(keys.node("redissyncer", task.nodeId)));
    const drained = task.nodeId !== "" && (await this.#store.get(keys.drain(task.nodeId)));
    if (current && isOnline(current) && !drained) return { ...task, status: "CREATING" };
    const request = { type: task.type, except: task.refusedBy, fresh };
    const found = await this.#plan.placement.choose(request);
    return found.nodeId === undefined
      ? { ...task, nodeId: "", status: "CREATED", reason: found.reason }
      : { ...task, nodeId: found.nodeId, status: "CREATING", reason: "" };
  }

  async #change(taskId: string, change: TaskChange, decide: Decision): Promise<Task> {
    const changed = await this.#decide(taskId, change, decide);
    await this.records.trimNowAndThen(changed);
    return changed;
  }

  #decide(taskId: string, { event, others: paths }: TaskChange, decide: Decision): Promise<Task> {
    return optimistically(this.#store, `task ${taskId}`, async (found) => {
      const [entry, owner, ...others] = found ?? (await this.#read(taskId, paths));
      const task = this.#visible(taskId, entry);
      const decided = await decide(task, { fresh: found !== undefined, owner, others });
      if (decided === task) return { do: [], result: task };
      const next: Task = { ...decided, generation: task.generation + 1, updateTime: this.#now() };
      if (next.status !== task.status) checkTransition(taskId, task.status, next.status);
      await refuseDuplicates(this.#store, task, next);
      return {
        if: [
          unchanged(keys.task(taskId), entry),
          ...stillUnique(task, next),
          ...(isGiven(task, next) ? stillUsable(next.nodeId) : []),
          // A node that claims it at this moment would run a task that is at rest.
          ...(next.status === "STOP" ? [absent(keys.owner(taskId))] : []),
        ],
        do: [...taskOperations(task, next), this.#event(next, event, next.reason)],
        else: this.#paths(taskId, paths).map((key) => ({ op: "get", key })),
        result: next,
      };
    });
  }

  #event(task: Task, event: string, detail: string) {
    const { taskId, nodeId, epoch } = task;
    return this.records.eventOperation(taskId, { at: this.#now(), event, detail, nodeId, epoch });
  }

  /** The task, its owner and others, as they are at one moment. */
  async #read(taskId: string, others?: readonly string[]): Promise<(Entry | undefined)[]> {
    return getMany(this.#store, this.#paths(taskId, others));
  }

  #paths(taskId: string, others: readonly string[] = []): string[] {
    if (!/^[\w.:@-]{1,200}$/.test(taskId)) throw new UnknownTaskError(taskId);
    return [keys.task(taskId), keys.owner(taskId), ...others];
  }

  /** Each attempt of a change asks, because the task may have moved to another group since the last one. */
  #visible(taskId: string, entry: Entry | undefined): Task {
    const task = taskOf(entry);
    const hidden = task && this.#plan.groups?.includes(task.groupId) === false;
    if (task === undefined || hidden) throw new UnknownTaskError(taskId);
    return task;
  }

  async #earlier(request: CreateRequest, idempotencyKey: string): Promise<Task | undefined> {
    const used = recordOf<{ taskId: string; body: string }>(await this.#store.get(request.key));
    if (used === undefined) return undefined;
    if (!this.#plan.secrets.isDigest(request.body, used.body))
      throw new IdempotencyError(idempotencyKey);
    const task = taskOf(await this.#store.get(keys.task(used.taskId)));
    if (task === undefined) throw new IdempotencyError(idempotencyKey, used.taskId);
    return task;
  }

  /** The task with another configuration, and what its author may do. */
  #configured(task: Task, wish: Json, local: boolean): Task {
    const checked = this.#runnerOf(task.type).validate(wish, { local });
    return { ...task, local, ...this.#sealed(checked, task.taskId) };
  }

  #runnerOf(type: string): Pick<Runner, "type" | "validate"> {
    const { runners } = this.#plan;
    const found = runners.find((runner) => runner.type === type);
    if (found === undefined)
      throw new UnknownTaskTypeError(
        type,
        runners.map((one) => one.type),
      );
    return found;
  }

  #now(): number {
    return Math.floor(this.#clock.now());
  }
}

/** Whether a node gets the task: it must be there when that is written. */
function isGiven(before: Task, after: Task): boolean {
  const begins = before.desired !== "run" && after.desired === "run";
  return after.nodeId !== "" && (begins || after.nodeId !== before.nodeId);
}
