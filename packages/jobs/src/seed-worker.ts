/**
 * Consumes the seed's lists, the first named first, and calls the callback that an item names. A list is
 * watched without taking anything: BLMOVE from its head to its head wakes us and leaves it as it is. What
 * is taken is leased beside the list ({queue:email}:taken, :leases) and renewed; a worker that dies loses
 * nothing, another puts its items back. An item that nobody can read, or whose callback throws, goes to
 * {queue:email}:bad.
 */
import { defineScript, type Logger, type Redis, type Reply, type Script } from "@ropeway/core";
import { type BlockingConnection, hashTag, IdSource, Loop } from "@ropeway/core/internal";
import { readSeedItem, SeedQueue, seedListKey } from "./seed-queue.ts";

const takeScript: Script<readonly string[]> = defineScript(
  new URL("../lua/seed-take.lua", import.meta.url),
  { parse: (reply: Reply) => reply as readonly string[] },
);

/** Called with the item's arguments, as the seed does. */
export type SeedCallback = (...args: never[]) => unknown;

/** How a SeedWorker behaves. */
export interface SeedWorkerOptions {
  /** How long an item belongs to this worker without a sign of life. @default 30000 */
  readonly leaseMs?: number;
  /** Longest wait before looking anyway. @default 1000 */
  readonly idleMs?: number;
  /** Also move due items of `delayed:`. @default true */
  readonly delayed?: boolean;
  readonly logger?: Logger;
}

/** The keys beside a list, on the same slot. */
function besideKeys(list: string): { taken: string; leases: string; bad: string } {
  const tag = hashTag(list) ?? list;
  const name = hashTag(list) === undefined ? "" : `:${list}`;
  return {
    taken: `{${tag}}${name}:taken`,
    leases: `{${tag}}${name}:leases`,
    bad: `{${tag}}${name}:bad`,
  };
}

/** See the top of the file. */
export class SeedWorker implements AsyncDisposable {
  readonly #redis: Redis;
  readonly #lists: readonly string[];
  readonly #callbacks: ReadonlyMap<string, SeedCallback>;
  readonly #options: Required<Omit<SeedWorkerOptions, "logger">>;
  readonly #logger: Logger;
  readonly #ids = new IdSource();
  readonly #seeds: SeedQueue;
  readonly #work: Loop;
  readonly #move: Loop;
  readonly #watches: Loop[] = [];
  readonly #connections: BlockingConnection[] = [];

  constructor(redis: Redis, plan: SeedWorkerPlan, options: SeedWorkerOptions = {}) {
    this.#redis = redis;
    this.#lists = [plan.queues].flat().map(seedListKey);
    this.#callbacks = new Map(Object.entries(plan.callbacks));
    const { leaseMs = 30_000, idleMs = 1_000, delayed = true, logger = redis.logger } = options;
    this.#options = { leaseMs, idleMs, delayed };
    this.#logger = logger;
    this.#seeds = new SeedQueue(redis);
    const onError = (error: unknown) => this.#logger.warn({ err: error }, "seed worker");
    this.#work = new Loop({ tick: (signal) => this.#tick(signal), onError });
    this.#move = new Loop({ tick: () => this.#moveDue(), onError });
  }

  /** Starts; resolves when it watches its lists. */
  async start(): Promise<this> {
    for (const list of this.#lists) {
      const connection = await this.#redis.blocking("jobs-seed", list);
      this.#connections.push(connection);
      const watch = new Loop({
        tick: () => this.#watch(connection, list),
        onError: (error) => this.#logger.warn({ err: error, list }, "seed worker cannot watch"),
      });
      this.#watches.push(watch.start());
    }
    this.#work.start();
    if (this.#options.delayed) this.#move.start();
    return this;
  }

  /** Finishes the callback under way. */
  async close(): Promise<void> {
    await this.#move.close();
    await this.#work.close();
    await Promise.all(this.#connections.map((connection) => connection.close()));
    await Promise.all(this.#watches.map((watch) => watch.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Takes and runs one item after another; looks at the lists in order each time. */
  async #tick(signal: AbortSignal): Promise<number> {
    for (const list of this.#lists) {
      const [token, item] = await this.#take(list, 1, []);
      if (token === undefined || item === undefined) continue;
      const stop = this.#renewing(list, token);
      const fault = await this.#run(item);
      stop();
      await this.#settle(list, { token, item, fault });
      return signal.aborted ? 1 : 0;
    }
    return this.#options.idleMs;
  }

  #take(list: string, want: number, done: readonly string[]): Promise<readonly string[]> {
    const { taken, leases } = besideKeys(list);
    const args = [want, this.#options.leaseMs, this.#ids.next(), ...done];
    return this.#redis.run(takeScript, [list, taken, leases], args);
  }

  #renewing(list: string, token: string): () => void {
    const { leases } = besideKeys(list);
    const { leaseMs } = this.#options;
    const renew = async () => {
      const [seconds] = await this.#redis.send<readonly string[]>(["TIME"], { key: leases });
      const ends = Number(seconds) * 1_000 + leaseMs;
      await this.#redis.send(["ZADD", leases, "XX", String(ends), token], { key: leases });
    };
    const timer = setInterval(() => {
      renew().catch((error) => this.#logger.warn({ err: error, list }, "cannot renew a lease"));
    }, leaseMs / 3);
    return () => clearInterval(timer);
  }

  /** What went wrong, if something did. */
  async #run(json: string): Promise<unknown> {
    const item = readSeedItem(json);
    if (item === undefined) return new Error("neither [name, args] nor [id, queue, name, args]");
    const callback = this.#callbacks.get(item.name);
    if (callback === undefined) return new Error(`no callback ${item.name}`);
    try {
      await (callback as (...args: unknown[]) => unknown)(...item.args);
      return undefined;
    } catch (error) {
      return error ?? new Error("the callback threw nothing");
    }
  }

  async #settle(list: string, end: { token: string; item: string; fault: unknown }): Promise<void> {
    const { bad } = besideKeys(list);
    if (end.fault !== undefined) {
      this.#logger.warn({ err: end.fault, list, item: end.item }, "a seed item was set aside");
      await this.#redis.send(["RPUSH", bad, end.item], { key: bad }); // before it is forgotten below
    }
    await this.#take(list, 0, [end.token]);
  }

  async #watch(connection: BlockingConnection, list: string): Promise<number> {
    const blockMs = 5_000;
    const command = ["BLMOVE", list, list, "LEFT", "LEFT", String(blockMs / 1_000)];
    const found = await connection.send(command, { blockMs });
    if (found === null) return 0;
    this.#work.wake();
    return 10; // it is being worked on: no need to be told again at once
  }

  async #moveDue(): Promise<number> {
    const { moved, nextMs } = await this.#seeds.moveDue();
    if (moved > 0) return 0;
    return nextMs < 0 ? this.#options.idleMs : Math.max(1, Math.min(nextMs, this.#options.idleMs));
  }
}

/** What a SeedWorker does. */
export interface SeedWorkerPlan {
  /** Without `queue:`; the first is the most urgent. */
  readonly queues: string | readonly string[];
  readonly callbacks: Readonly<Record<string, SeedCallback>>;
}
