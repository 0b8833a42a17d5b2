/** All Redis traffic of one queue: one method per script, replies made into what they mean. */
import type { Redis, Reply } from "@ropeway/core";
import { type QueueKeys, queueKeys, queuesKey } from "./keys.ts";
import {
  addScript,
  changeScript,
  countsScript,
  drainScript,
  inspectScript,
  type Moved,
  moveScript,
  nextScript,
  noteScript,
  pairsOf,
  planScript,
  type Renewed,
  renewScript,
  searchScript,
} from "./scripts.ts";

/** A job on its way to add.lua. */
export interface NewJob {
  readonly id: string;
  /** JSON of a Placement, or "". */
  readonly where: string;
  /** encodeRecord() */
  readonly record: string;
}

/** What stands in place of a job that was not added. */
export interface NotAdded {
  readonly id: string;
  readonly why: "exists" | "kept" | "replaced";
}

/** One ended attempt, for next.lua. */
export interface Ended {
  readonly id: string;
  readonly token: string;
  /** Done: "s" or "". Undone: the verdict. */
  readonly how: string;
  /** Result or error as JSON. */
  readonly json: string;
}

/** What a worker brings and wants. */
export interface Exchange {
  readonly worker: string;
  readonly leaseMs: number;
  readonly want: number;
  /** How long the worker will block for a wake-up if it gets fewer than it wants. @default 0 */
  readonly parkMs?: number;
  readonly done: readonly Ended[];
  readonly undone: readonly Ended[];
}

/** What a worker gets. */
export interface Taken {
  /** Ids whose outcome was refused because the lease was lost. */
  readonly refused: readonly string[];
  /** ms until move() has something to do; -1 if nothing is planned. */
  readonly dueMs: number;
  /** ms until a limit allows more; -1 if none stands in the way. */
  readonly laterMs: number;
  readonly firstFence: number;
  readonly tokenRest: string;
  /** id, record, id, record ... */
  readonly jobs: readonly string[];
}

/** Everything that Redis knows of one job. */
export interface RawJob {
  readonly id: string;
  readonly state: string;
  readonly record: string;
  readonly notes: string | null;
  readonly token: string | null;
  readonly due: string | null;
}

/** What search.lua looks for. */
export interface Query {
  readonly state: string;
  readonly first: number;
  readonly places: number;
  readonly name: string;
  readonly text: string;
  readonly group: string;
  readonly limit: number;
}

/** One queue in Redis. */
export class QueueStore {
  readonly redis: Redis;
  readonly name: string;
  readonly keys: QueueKeys;
  readonly #registry: string;
  #registered = false;

  constructor(redis: Redis, prefix: string, name: string) {
    this.redis = redis;
    this.name = name;
    this.keys = queueKeys(prefix, name);
    this.#registry = queuesKey(prefix);
  }

  /** Adds jobs; the answer says which were not, by their index. */
  async add(jobs: readonly NewJob[]): Promise<ReadonlyMap<number, NotAdded>> {
    if (!this.#registered) {
      // Not awaited: a second batch must not overtake this one.
      this.register().catch((error) => {
        this.#registered = false;
        this.redis.logger.warn({ err: error, queue: this.name }, "cannot register the queue");
      });
    }
    const args: string[] = [this.keys.control];
    for (const job of jobs) args.push(job.id, job.where, job.record);
    const reply = await this.redis.run(addScript, this.keys.all, args);
    const other = new Map<number, NotAdded>();
    if (typeof reply === "number") return other;
    const list = reply as readonly (string | number)[];
    for (let i = 0; i < list.length; i += 3) {
      const [index, id, why] = list.slice(i, i + 3) as [number, string, NotAdded["why"]];
      other.set(Number(index), { id, why });
    }
    return other;
  }

  async next(exchange: Exchange): Promise<Taken> {
    const { worker, leaseMs, want, parkMs = 0, done, undone } = exchange;
    const { control, results, all } = this.keys;
    const args: (string | number)[] = [worker, leaseMs, want, done.length, undone.length];
    args.push(control, results, parkMs);
    for (const ended of done) args.push(ended.id, ended.token, ended.how, ended.json);
    for (const ended of undone) args.push(ended.id, ended.token, ended.how, ended.json);
    const reply = (await this.redis.run(nextScript, all, args)) as readonly Reply[];
    return {
      refused: reply[0] as readonly string[],
      dueMs: Number(reply[1]),
      laterMs: Number(reply[2]),
      firstFence: Number(reply[3]),
      tokenRest: reply[4] as string,
      jobs: reply[5] as readonly string[],
    };
  }

  move(limit: number): Promise<Moved> {
    return this.redis.run(moveScript, this.keys.all, [limit]);
  }

  /** Extends the leases of `held` (id -> token) and says that the worker lives. */
  renew(
    worker: string,
    about: RenewAbout,
    held: Iterable<readonly [string, string]>,
  ): Promise<Renewed> {
    const { active, lease, cancels, workers } = this.keys;
    const args: (string | number)[] = [worker, about.leaseMs, about.description];
    for (const [id, token] of held) args.push(id, token);
    return this.redis.run(renewScript, [active, lease, cancels, workers], args);
  }

  /** False if the job is not held with this token. */
  async note(
    job: { id: string; token: string },
    kind: "progress" | "log",
    value: readonly [string, number],
  ): Promise<boolean> {
    const { meta, active, notes, events } = this.keys;
    const args = [job.id, job.token, kind, ...value];
    return (await this.redis.run(noteScript, [meta, active, notes, events], args)) === 1;
  }

  async inspect(id: string, tellMe: boolean = false): Promise<RawJob | undefined> {
    const reply = await this.redis.run(inspectScript, this.keys.all, [id, tellMe ? "1" : ""]);
    if (reply === null) return undefined;
    const [state, record, notes, token, due] = reply as readonly (string | null)[];
    return rawJob(id, String(state), [record, notes, token, due]);
  }

  change(id: string, verb: string, value: string = ""): Promise<string> {
    return this.redis.run(changeScript, this.keys.all, [this.keys.control, id, verb, value]);
  }

  async search(query: Query): Promise<{ next: number; jobs: RawJob[] }> {
    const { state, first, places, name, text, group, limit } = query;
    const args = [state, first, places, name, text, group, limit];
    const [next, ...found] = await this.redis.run(searchScript, this.keys.all, args);
    const jobs = (found as readonly (readonly (string | null)[])[]).map(([id, ...rest]) =>
      rawJob(String(id), state, rest),
    );
    return { next: Number(next), jobs };
  }

  drain(state: string, limit: number, olderThanMs: number = 0): Promise<number> {
    return this.redis.run(drainScript, this.keys.all, [state, limit, olderThanMs]);
  }

  async counts(): Promise<{
    states: readonly number[];
    oldestMs: number;
    meta: Map<string, string>;
  }> {
    const reply = await this.redis.run(countsScript, this.keys.all, []);
    return {
      states: reply.slice(0, 6).map(Number),
      oldestMs: Number(reply[6]),
      meta: pairsOf(reply[7] as readonly string[]),
    };
  }

  plan(
    id: string,
    verb: "set" | "remove" | "fire",
    args: readonly (string | number)[],
  ): Promise<number> {
    const { jobs, delayed, completed, failed, schedules, plan } = this.keys;
    const keys = [jobs, delayed, completed, failed, schedules, plan];
    return this.redis.run(planScript, keys, [this.keys.control, id, verb, ...args]);
  }

  /** Sends a plain command on one of the queue's keys. */
  send<T extends Reply>(command: string, key: string, ...args: readonly string[]): Promise<T> {
    return this.redis.send<T>([command, key, ...args], { key, repeatable: true });
  }

  /** The server's time in ms. */
  async now(): Promise<number> {
    const [seconds, micros] = await this.redis.send<readonly string[]>(["TIME"], {
      key: this.keys.meta,
      repeatable: true,
    });
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  }

  /** Makes the queue's name known to tools that list queues. */
  async register(): Promise<void> {
    this.#registered = true;
    await this.redis.send(["SADD", this.#registry, this.name], {
      key: this.#registry,
      repeatable: true,
    });
  }
}

/** What a worker says with each sign of life. */
export interface RenewAbout {
  readonly leaseMs: number;
  readonly description: string;
}

function rawJob(id: string, state: string, fields: readonly (string | null | undefined)[]): RawJob {
  const [record, notes = null, token = null, due = null] = fields;
  return { id, state, record: record ?? "", notes, token, due };
}
