/**
 * Consumes the lists of the documented Python wire, the first named first, and calls the callback that an
 * item names. Watching a list takes no item. A taken item gets a lease beside the list, which the worker
 * renews. If a worker dies, another one puts its items back. An item that cannot be read, or whose
 * callback throws, goes to {queue:email}:bad.
 */
import { InvalidArgumentError, type Logger, type Redis, ServerReplyError } from "@ropeway/core";
import {
  BackgroundRole,
  type BlockingConnection,
  flag,
  IdSource,
  integer,
  Loop,
  type Opening,
  type OptionTable,
  optional,
  requireRedis,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { SeedStore, seedListKey, type TakenItem } from "../store/seed-store.ts";
import { readSeedItem, SeedQueue } from "./seed-queue.ts";

/** Called with the item's arguments. */
export type SeedCallback = (...args: never[]) => unknown;

/** The options of a SeedWorker. */
export interface SeedWorkerOptions {
  /** How long an item belongs to this worker after the last heartbeat. @default 30000 */
  readonly leaseMs?: number;
  /** The longest wait for a wake-up. @default 1000 */
  readonly idleMs?: number;
  /** Also move due items of `delayed:`. @default true */
  readonly delayed?: boolean;
  /** @default the connection's */
  readonly logger?: Logger | undefined;
}

/** The lists and callbacks of a SeedWorker. */
export interface SeedWorkerPlan {
  /** Without `queue:`; the first is the most urgent. */
  readonly queues: string | readonly string[];
  readonly callbacks: Readonly<Record<string, SeedCallback>>;
}

/** The events of a SeedWorker. */
export interface SeedWorkerEvents {
  /** An item was set aside. */
  failed: [item: string, error: unknown];
  error: [error: unknown];
}

/** An item that has run. */
interface FinishedItem extends TakenItem {
  readonly list: string;
  /** The reason to set it aside; undefined if it succeeded. */
  readonly fault: unknown;
  /** Stops renewing its lease. */
  stop(): void;
}

const anObject = (value: unknown) => typeof value === "object" && value !== null;
const table: OptionTable<SeedWorkerOptions> = {
  leaseMs: { default: 30_000, rule: integer(50, 2_147_483_647) },
  idleMs: { default: 1_000, rule: integer(10, 600_000) },
  delayed: { default: true, rule: flag },
  logger: { default: undefined, rule: optional(satisfying<Logger>("a logger", anObject)) },
};

/** Runs the items of lists that programs in other languages fill. Call start() to start it. */
export class SeedWorker extends BackgroundRole<SeedWorkerEvents> {
  readonly #store: SeedStore;
  readonly #lists: readonly string[];
  readonly #callbacks: ReadonlyMap<string, SeedCallback>;
  readonly #options: Required<SeedWorkerOptions>;
  readonly #ids = new IdSource();
  readonly #delayed: SeedQueue;
  #work: Loop | undefined;
  /** The finished item until Redis has confirmed its end. Its lease is renewed, and no other item is taken before. */
  #finished: FinishedItem | undefined;

  constructor(redis: Redis, plan: SeedWorkerPlan, options?: SeedWorkerOptions) {
    requireRedis(redis);
    checkPlan(plan);
    const resolved = resolveOptions(table, options);
    super("the worker", resolved.logger ?? redis.logger);
    this.#options = resolved;
    this.#store = new SeedStore(redis);
    this.#lists = [plan.queues].flat().map(seedListKey);
    this.#callbacks = new Map(Object.entries(plan.callbacks));
    this.#delayed = new SeedQueue(redis);
  }

  protected async open({ defer }: Opening): Promise<void> {
    const onError = (error: unknown) => this.report(error);
    const run = (tick: (signal: AbortSignal) => Promise<number>) => {
      const loop = new Loop({ tick, onError });
      defer(() => loop.close());
      return loop;
    };
    const connections: BlockingConnection[] = [];
    for (const list of this.#lists) {
      const connection = await this.#store.connect(list);
      connections.push(connection);
      defer(() => connection.close());
    }
    connections.forEach((connection, i) => {
      const watch = new Loop({
        tick: () => this.#watch(connection, this.#lists[i] ?? ""),
        onError,
      });
      watch.start();
      defer(async () => {
        await connection.close(); // interrupts the loop's wait
        await watch.close();
      });
    });
    defer(() => this.#forget());
    this.#work = run((signal) => this.#tick(signal)).start();
    if (this.#options.delayed) run(() => this.#moveDue()).start();
  }

  protected override release(): void {
    this.#work?.wake();
  }

  /** Takes and runs one item after another; checks the lists in order each time. */
  async #tick(signal: AbortSignal): Promise<number> {
    await this.#settle();
    for (const list of this.held ? [] : this.#lists) {
      const { leaseMs } = this.#options;
      const call = { list, want: 1, leaseMs, tokens: this.#ids.next() };
      const [taken] = await this.#store.take(call);
      if (taken === undefined) continue;
      const stop = this.#renewing(list, taken.token);
      const fault = await this.#run(taken.item);
      this.#finished = { ...taken, list, fault, stop };
      await this.#settle();
      return signal.aborted ? 1 : 0;
    }
    return this.#options.idleMs;
  }

  #renewing(list: string, token: string): () => void {
    const { leaseMs } = this.#options;
    const timer = setInterval(() => {
      this.#store.renew(list, token, leaseMs).catch((error) => this.report(error));
    }, leaseMs / 3);
    return () => clearInterval(timer);
  }

  /** The error of the callback, or the reason why none was called; undefined if it succeeded. */
  async #run(json: string): Promise<unknown> {
    const item = readSeedItem(json);
    if (item === undefined) return new Error("neither [name, args] nor [id, queue, name, args]");
    const callback = this.#callbacks.get(item.name);
    if (callback === undefined) return new Error(`no callback ${item.name}`);
    try {
      await (callback as (...args: unknown[]) => unknown)(...item.args);
      return undefined;
    } catch (error) {
      return error ?? new Error("the callback threw undefined");
    }
  }

  async #settle(): Promise<void> {
    if (this.#finished === undefined) return;
    const { list, token, item, fault } = this.#finished;
    try {
      await this.#store.end(list, token, fault !== undefined);
    } catch (error) {
      // The item comes back when its lease expires. A foreign value beside the list must not stop the worker.
      if (error instanceof ServerReplyError && error.prefix === "WRONGTYPE") this.#forget();
      throw error;
    }
    this.#forget();
    if (fault !== undefined) this.emit("failed", item, fault);
  }

  #forget(): void {
    this.#finished?.stop();
    this.#finished = undefined;
  }

  async #watch(connection: BlockingConnection, list: string): Promise<number> {
    if (!(await this.#store.watch(connection, list, 5_000))) return 0;
    this.#work?.wake();
    return 10; // the worker was woken: do not watch again at once
  }

  async #moveDue(): Promise<number> {
    const { moved, nextMs } = await this.#delayed.moveDue();
    if (moved > 0) return 0;
    return nextMs < 0 ? this.#options.idleMs : Math.max(1, Math.min(nextMs, this.#options.idleMs));
  }
}

/** Refuses a plan that names no list, or a callback that is not a function. */
function checkPlan(plan: SeedWorkerPlan): void {
  const { queues, callbacks } = (plan ?? {}) as Partial<SeedWorkerPlan>;
  const names = [queues].flat();
  if (names.length === 0 || !names.every(text.accepts)) {
    throw new InvalidArgumentError("queues", queues, "the name of a list, or an array of names");
  }
  const functions = anObject(callbacks) ? Object.values(callbacks as object) : [undefined];
  if (functions.every((callback) => typeof callback === "function")) return;
  throw new InvalidArgumentError("callbacks", callbacks, "an object with a function for each name");
}
