/** The commands of producers and workers on a queue: one method per script, with parsed replies. */
import { ConnectionLostError, type Reply } from "@ropeway/core";
import type { BlockingConnection } from "@ropeway/core/internal";
import {
  addAgainScript,
  addScript,
  changeScript,
  childrenScript,
  childScript,
  inspectScript,
  type Moved,
  moveScript,
  nextScript,
  noteScript,
  orphansScript,
  pairsOf,
  type Renewed,
  renewScript,
  wakeScript,
} from "../scripts.ts";
import { registerQueue } from "./registry.ts";
import { ServerClock } from "./server-clock.ts";
import { QueueSite } from "./site.ts";

/** How often a queue in use is registered again. */
const REGISTER_MS = 60_000;

/** A job on its way to add.lua. */
export interface NewJob {
  readonly id: string;
  /** JSON of a Placement, or "". */
  readonly where: string;
  /** The string of encodeRecord(), to which the store prepends the time; empty for a message to another queue. */
  record: string;
  /** Whether the time is prepended. */
  dated?: boolean;
}

/** The job that exists in place of a job that was not added. */
export interface NotAdded {
  readonly id: string;
  readonly why: "exists" | "kept" | "replaced";
}

/** The reply to add(). */
export interface AddOutcome {
  /** The jobs that were not added, by their index. */
  readonly other: ReadonlyMap<number, NotAdded>;
  /** The index of the first job that the call did not handle, so that Redis is not blocked for long. */
  readonly stoppedAt?: number;
}

/** The arguments of add(). */
export interface AddCall {
  readonly jobs: readonly NewJob[];
  /** Add all or none. @default false */
  readonly whole?: boolean;
  /** The caller and the number of its call. A repeated call is applied once. */
  readonly producer: string;
  readonly number: number;
  /** The call may have been applied before. @default false */
  readonly repeated?: boolean;
}

/** One ended attempt, for next.lua. */
export interface Ended extends HeldJob {
  /** Done: "s" or "". Undone: the verdict. */
  readonly how: string;
  /** Result or error as JSON. */
  readonly json: string;
}

/** The outcomes that a worker reports and the jobs that it wants. */
export interface Exchange {
  readonly worker: string;
  readonly leaseMs: number;
  readonly want: number;
  /** How long the worker will block for a wake-up if it gets fewer jobs than it wants. @default 0 */
  readonly idleMs?: number;
  readonly done: readonly Ended[];
  readonly undone: readonly Ended[];
}

/** The reply to a worker's exchange. */
export interface Taken {
  /** Ids whose outcome was refused because the lease was lost. */
  readonly refused: readonly string[];
  /** ms until move() has something to do; -1 if nothing is planned. */
  readonly dueMs: number;
  /** ms until a limit allows more; 0 if the call ended early and there is more; -1 if no limit was reached. */
  readonly laterMs: number;
  /** The n-th job's fence is this plus n. */
  readonly firstFence: number;
  /** id, record, id, record ... */
  readonly jobs: readonly string[];
}

/** Everything that Redis stores about one job. */
export interface RawJob {
  readonly id: string;
  readonly state: string;
  readonly record: string;
  readonly notes: string | null;
  readonly token: string | null;
  readonly due: string | null;
}

/** A job that a worker holds. */
export interface HeldJob {
  readonly id: string;
  readonly fence: number;
  /**
   * The worker, once its name is certainly in the token. A failover can lose the last fences, which are then given
   * again. Without the name, a worker could end a job that another worker holds with the same fence.
   */
  readonly holder?: string | undefined;
}

/** The beginning of the token of a held job. */
function tokenOf({ fence, holder }: HeldJob): string {
  return holder === undefined ? `${fence}@` : `${fence}@${holder}@`;
}

/** A child's outcome for a parent in this queue. */
export interface ChildReport {
  readonly parent: string;
  readonly child: string;
  /** The flow's token; undefined if another program made the flow without one. */
  readonly flow?: string | undefined;
  /** 0 fail the parent, 1 ignore, 2 remove. */
  readonly policy: number;
  /** "c" completed, "f" failed, "r" removed. */
  readonly outcome: string;
  readonly text: string;
}

/** One queue in Redis. */
export class QueueStore extends QueueSite {
  #registeredUntil = Number.NEGATIVE_INFINITY;
  readonly #clock = new ServerClock();

  /** Adds jobs. A call with `whole` handles all of them. */
  async add(call: AddCall): Promise<AddOutcome> {
    this.#keepRegistered();
    const reply = await this.#add(call);
    const other = new Map<number, NotAdded>();
    if (typeof reply === "number") return { other };
    const list = reply as readonly (string | number)[];
    let stoppedAt: number | undefined;
    for (let i = 0; i < list.length; i += 3) {
      const [index, id, why] = list.slice(i, i + 3) as [number, string, NotAdded["why"]];
      if (Number(index) === -1) this.#clock.learn(Number(id));
      else if (Number(index) === -2) stoppedAt = Number(id);
      else other.set(Number(index), { id, why });
    }
    return stoppedAt === undefined ? { other } : { other, stoppedAt };
  }

  async #add(call: AddCall): Promise<Reply> {
    const { jobs, whole = false, producer, number, repeated = false } = call;
    const args: (string | number)[] = [producer, number, repeated ? "1" : "", whole ? "1" : ""];
    const time = String(this.#clock.now());
    for (const job of jobs) {
      if (job.record !== "" && job.dated !== true) {
        job.record = time + job.record; // in place: a long record must not stay in memory twice
        job.dated = true;
      }
      args.push(job.id, job.where, job.record);
    }
    try {
      return await this.run(addScript, this.keys.adding, args);
    } catch (error) {
      if (!(error instanceof ConnectionLostError)) throw error;
      args[2] = "1"; // it may have been applied: the script finds out
      return await this.run(addAgainScript, this.keys.adding, args);
    }
  }

  async next(exchange: Exchange): Promise<Taken> {
    const { worker, leaseMs, want, idleMs = 0, done, undone } = exchange;
    const args: (string | number)[] = [worker, leaseMs, want, done.length, undone.length, idleMs];
    for (const ended of done) args.push(ended.id, tokenOf(ended), ended.how, ended.json);
    for (const ended of undone) args.push(ended.id, tokenOf(ended), ended.how, ended.json);
    const reply = (await this.run(nextScript, this.keys.hot, args)) as readonly Reply[];
    return {
      refused: reply[0] as readonly string[],
      dueMs: Number(reply[1]),
      laterMs: Number(reply[2]),
      firstFence: Number(reply[3]),
      jobs: reply[4] as readonly string[],
    };
  }

  /** Handles everything that is due, at most `limit` of each kind. */
  move(limit: number): Promise<Moved> {
    return this.run(moveScript, this.keys.all, [limit]);
  }

  /** Extends leases and records the worker's heartbeat. */
  renew(sign: SignOfLife): Promise<Renewed> {
    this.#keepRegistered();
    const { active, lease, workers, meta, events, jobs } = this.keys;
    const args: (string | number)[] = [sign.worker, sign.leaseMs, sign.description];
    for (const job of sign.held) args.push(job.id, tokenOf(job));
    return this.run(renewScript, [active, lease, workers, meta, events, jobs], args);
  }

  /** All jobs whose tokens name the worker. */
  async heldBy(worker: string): Promise<HeldJob[]> {
    const held: HeldJob[] = [];
    let cursor = "0";
    do {
      const args = [cursor, "COUNT", "500"];
      const [next, flat] = await this.send<[string, string[]]>("HSCAN", this.keys.active, ...args);
      for (const [id, token] of pairsOf(flat)) {
        const [fence, holder] = token.split("@", 2);
        if (holder === worker) held.push({ id, fence: Number(fence), holder });
      }
      cursor = next;
    } while (cursor !== "0");
    return held;
  }

  /** Removes a worker that closes. */
  async removeWorker(worker: string): Promise<void> {
    await this.send("HDEL", this.keys.workers, worker);
  }

  /** Writes progress or a line of the log; false if the job is not held with this fence. */
  async note(
    job: HeldJob,
    entry: { readonly kind: "progress" | "log"; readonly value: string; readonly lines: number },
  ): Promise<boolean> {
    const { meta, active, notes, events, jobs } = this.keys;
    const args = [job.id, tokenOf(job), entry.kind, entry.value, entry.lines];
    return (await this.run(noteScript, [meta, active, notes, events, jobs], args)) === 1;
  }

  /** Replaces the data of a running job; false if it is not held with this fence. */
  async updateHeld(job: HeldJob, json: string): Promise<boolean> {
    const args = [job.id, "update", '{"j":1}', json, tokenOf(job)];
    return (await this.run(changeScript, this.keys.hot, args)) === "done";
  }

  /** Whether the job is held with this fence. */
  async holds(job: HeldJob): Promise<boolean> {
    const token = await this.send<string | null>("HGET", this.keys.active, job.id);
    return token?.startsWith(tokenOf(job)) === true;
  }

  /** Adds children to a running job that has `before`. Returns whether the job was lost, or which id is taken. */
  async addChildren(
    parent: HeldJob,
    add: { readonly flow: string; readonly before: number; readonly children: readonly NewJob[] },
  ): Promise<{ readonly lost: boolean; readonly taken?: string }> {
    const args = [parent.id, tokenOf(parent), add.flow, add.before];
    for (const child of add.children) args.push(child.id, child.where, child.record);
    const reply = await this.run(childrenScript, this.keys.hot, args);
    return typeof reply === "string" ? { lost: false, taken: reply } : { lost: reply === 0 };
  }

  /** Records the outcome of a child that ended in another queue. */
  async recordChild(report: ChildReport): Promise<void> {
    const { parent, child, flow = "", policy, outcome, text } = report;
    await this.run(childScript, this.keys.hot, [parent, child, policy, outcome, text, flow]);
  }

  /** The recorded outcomes of a flow's children, in their order. */
  async childOutcomes(
    flow: string | undefined,
    ids: readonly string[],
  ): Promise<readonly (string | null)[]> {
    if (ids.length === 0) return [];
    const head = flow === undefined ? "c" : `c${flow}:`;
    return this.send("HMGET", this.keys.children, ...ids.map((id) => `${head}${id}`));
  }

  /** Whether the parent has recorded the end of a child of the flow, or the parent is gone. */
  async childIsOver(flow: string, parent: string, child: string): Promise<boolean> {
    const fields = [`n${flow}:${parent}`, `c${flow}:${child}`];
    const reply = await this.send<(string | null)[]>("HMGET", this.keys.children, ...fields);
    return reply[0] === null || reply[1] !== null;
  }

  /** A page of messages for other queues (number -> JSON), and the cursor of the next page. */
  async outbox(
    from: string,
    key: string = this.keys.outbox,
  ): Promise<{ cursor: string; messages: Map<string, string> }> {
    const args = [from, "COUNT", "100"];
    const [cursor, flat] = await this.send<[string, string[]]>("HSCAN", key, ...args);
    return { cursor, messages: pairsOf(flat) };
  }

  /** A page of messages for parents in other queues of about `count` deleted jobs, and the cursor of the next page. */
  async orphans(
    from: string,
    count: number,
  ): Promise<{ cursor: string; bytes: number; messages: readonly string[] }> {
    const keys = this.keys.hot.with(this.keys.hot.indexOf(this.keys.jobs), this.keys.gone);
    const reply = await this.run(orphansScript, keys, [from, count]);
    const [cursor = "0", bytes, ...messages] = reply;
    return { cursor, bytes: Number(bytes), messages };
  }

  /** Deletes messages that were delivered. */
  async delivered(numbers: readonly string[]): Promise<void> {
    if (numbers.length > 0) await this.send("HDEL", this.keys.outbox, ...numbers);
  }

  /** Everything about one job. `awaited` requests that its end is published. */
  async inspect(id: string, awaited: boolean = false): Promise<RawJob | undefined> {
    const reply = await this.run(inspectScript, this.keys.hot, [id, awaited ? "1" : ""]);
    if (reply === null) return undefined;
    const [state, record, notes, token, due] = reply as readonly (string | null)[];
    return rawJob(id, String(state), [record, notes, token, due]);
  }

  /** Wakes an idle worker to check for work. */
  async wake(): Promise<void> {
    await this.run(wakeScript, [this.keys.wake], []);
  }

  /** Adds the queue's name to the set that tools list. */
  async register(): Promise<void> {
    this.#registeredUntil = performance.now() + REGISTER_MS;
    try {
      await registerQueue(this.redis, this.prefix, this.name);
    } catch (error) {
      this.#registeredUntil = Number.NEGATIVE_INFINITY;
      throw error;
    }
  }

  /** The queue was obliterated: its next use registers its name again. */
  unregistered(): void {
    this.#registeredUntil = Number.NEGATIVE_INFINITY;
  }

  /** Registers the queue from time to time, so that a queue that was obliterated elsewhere is listed again. */
  #keepRegistered(): void {
    if (performance.now() < this.#registeredUntil) return;
    // Not awaited: a second batch must not overtake the batch that is about to be added.
    this.register().catch((error) => {
      this.redis.logger.warn({ err: error, queue: this.name }, "cannot register the queue");
    });
  }
}

/** Blocks until one of the queues may have work: [wake key, member, score], or null. */
export function waitForWork(
  connection: BlockingConnection,
  stores: readonly QueueStore[],
  wait: { readonly blockMs: number; readonly signal: AbortSignal },
): Promise<readonly string[] | null> {
  const keys = stores.map((store) => store.keys.wake);
  return connection.send(["BZPOPMIN", ...keys, String(wait.blockMs / 1_000)], wait);
}

/** The content of a worker's heartbeat. */
export interface SignOfLife {
  readonly worker: string;
  readonly leaseMs: number;
  /** JSON for lists of workers. */
  readonly description: string;
  readonly held: Iterable<HeldJob>;
}

/** Makes a RawJob from a reply of inspect.lua or search.lua. */
export function rawJob(
  id: string,
  state: string,
  fields: readonly (string | null | undefined)[],
): RawJob {
  const [record, notes = null, token = null, due = null] = fields;
  return { id, state, record: record ?? "", notes, token, due };
}
