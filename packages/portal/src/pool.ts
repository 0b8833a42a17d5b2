/**
 * Objects by name that are too costly for one request and too many to keep: RPC clients per namespace,
 * event feeds per queue. Requests for the same name share one object. It is opened by the first, kept for
 * a while after the last, and never closed while it is in use.
 *
 *   use("a") ---> opening ---> in use (count > 0) <---> idle ---> closed: idle for idleMs, or the oldest
 *                                                                 idle one when there is no room
 *
 * The bound holds for everything that is open. If all of it is in use, one more is an OverloadedError.
 */
import { ClosedError, OverloadedError } from "@ropeway/core";

/** What a pool holds and how many. */
export interface PoolPlan<T> {
  /** What it holds, for errors, such as "rpc clients". */
  readonly what: string;
  /** The most objects that are open at once. */
  readonly most: number;
  /** How long an object stays open without a user. @default 30000 */
  readonly idleMs?: number;
  open(name: string): T | Promise<T>;
  close(value: T): unknown;
}

interface Entry<T> {
  readonly value: Promise<T>;
  users: number;
  idleTimer: NodeJS.Timeout | undefined;
}

const IDLE_MS = 30_000;

/** Shared objects by name. */
export class Pool<T> {
  readonly #plan: PoolPlan<T>;
  /** In the order of the last use. */
  readonly #entries = new Map<string, Entry<T>>();
  #closed = false;

  constructor(plan: PoolPlan<T>) {
    this.#plan = plan;
  }

  /** The number of objects that are open. */
  get size(): number {
    return this.#entries.size;
  }

  /** Does the work with the object of that name, which stays open at least that long. */
  async use<R>(name: string, work: (value: T) => Promise<R>): Promise<R> {
    const entry = this.#take(name);
    try {
      return await work(await entry.value);
    } finally {
      this.#release(name, entry);
    }
  }

  /** Closes every object; those in use too. Later calls of use() are refused. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#entries.keys()].map((name) => this.#drop(name)));
  }

  #take(name: string): Entry<T> {
    const { what, most } = this.#plan;
    if (this.#closed) throw new ClosedError(`the pool of ${what}`);
    let entry = this.#entries.get(name);
    if (entry === undefined) {
      const room = this.#entries.size < most ? Promise.resolve() : this.#dropIdle();
      if (room === undefined) {
        throw new OverloadedError("the portal", `${most} ${what} are in use`);
      }
      entry = { value: this.#open(name, room), users: 0, idleTimer: undefined };
    }
    clearTimeout(entry.idleTimer);
    entry.users += 1;
    this.#entries.delete(name); // to the end
    this.#entries.set(name, entry);
    return entry;
  }

  /** Opens an object when there is room: what is being closed still counts. */
  async #open(name: string, room: Promise<void>): Promise<T> {
    await room.catch(() => {}); // the caller that closes reports a failed close
    return this.#plan.open(name);
  }

  #release(name: string, entry: Entry<T>): void {
    entry.users -= 1;
    if (entry.users > 0 || this.#entries.get(name) !== entry) return;
    const { idleMs = IDLE_MS } = this.#plan;
    entry.idleTimer = setTimeout(() => this.#drop(name).catch(() => {}), idleMs).unref();
    entry.value.catch(() => this.#forget(name, entry)); // the next one tries again
  }

  #forget(name: string, entry: Entry<T>): void {
    clearTimeout(entry.idleTimer);
    if (this.#entries.get(name) === entry) this.#entries.delete(name);
  }

  /** Makes room: resolves when there is some; undefined if everything is in use. */
  #dropIdle(): Promise<void> | undefined {
    for (const [name, { users }] of this.#entries) if (users === 0) return this.#drop(name);
    return undefined;
  }

  async #drop(name: string): Promise<void> {
    const entry = this.#entries.get(name);
    if (entry === undefined) return;
    this.#entries.delete(name);
    clearTimeout(entry.idleTimer);
    const value = await entry.value.catch(() => undefined); // use() has reported it
    if (value !== undefined) await this.#plan.close(value);
  }
}
