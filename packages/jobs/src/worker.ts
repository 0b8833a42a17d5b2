/** Takes jobs from one queue, or from several in order, and runs their handlers. */

import { randomBytes } from "node:crypto";
import { EventEmitter } from "node:events";
import { hostname } from "node:os";
import { InvalidOptionError, type Logger, type Redis } from "@ropeway/core";
import { Loop, type Subscriber, sleep, slotOf } from "@ropeway/core/internal";
import type { Attempt, JobContext } from "./attempt.ts";
import { JobsClosedError } from "./errors.ts";
import { Heartbeat } from "./heartbeat.ts";
import { Lane } from "./lane.ts";
import { Mover } from "./mover.ts";
import { resolveWorkerOptions, type WorkerOptions } from "./options.ts";
import { type BatchHandler, type Handler, Processor } from "./processor.ts";
import { ScheduleBook } from "./schedule-book.ts";
import { QueueStore } from "./store.ts";
import { Watcher } from "./watcher.ts";

/** One handler for all jobs, one per job name, or one for batches (with the `batch` option). */
// biome-ignore lint/suspicious/noExplicitAny: each handler knows the data of its own jobs
export type Handlers = Handler<any> | BatchHandler<any> | Readonly<Record<string, Handler<any>>>;

/** What a worker emits. */
export interface WorkerEvents {
  active: [job: JobContext];
  completed: [job: JobContext, result: unknown];
  /** `final`: it will not be tried again. */
  failed: [job: JobContext, error: unknown, final: boolean];
  /** The lease was lost; another worker has the job or will have it. */
  lost: [id: string];
  error: [error: unknown];
}

const SCHEDULE_MS = 5_000;
const RESTART_MS = 1_000;

/** The roles that serve one queue. */
interface Crew {
  readonly lane: Lane;
  readonly mover: Mover;
  readonly heartbeat: Heartbeat;
  readonly scheduler: Loop;
}

/** See the top of the file. */
export class Worker extends EventEmitter<WorkerEvents> implements AsyncDisposable {
  /** Unique for this object; part of every token. */
  readonly id: string = randomBytes(6).toString("base64url");
  readonly queues: readonly string[];
  readonly #redis: Redis;
  readonly #options: Required<WorkerOptions>;
  readonly #logger: Logger;
  readonly #crews: readonly Crew[];
  readonly #processor: Processor;
  readonly #closing = new AbortController();
  #watcher: Watcher | undefined;
  #control: Subscriber | undefined;
  #started: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  // biome-ignore lint/complexity/useMaxParams: the shape every user of a queue library knows
  constructor(
    redis: Redis,
    queues: string | readonly string[],
    handlers: Handlers,
    options?: WorkerOptions,
  ) {
    super();
    this.#redis = redis;
    this.#options = resolveWorkerOptions(options);
    this.#logger = this.#options.logger ?? redis.logger;
    this.queues = [queues].flat();
    if (this.queues.length === 0)
      throw new InvalidOptionError("queues", queues, "at least one name");
    const description = JSON.stringify({
      name: this.#options.name || `${hostname()}:${process.pid}`,
      concurrency: this.#options.concurrency,
      leaseMs: this.#options.leaseMs,
      startedAt: Date.now(),
    });
    this.#crews = this.queues.map((queue) => this.#crew(queue, description));
    this.#checkSlots();
    this.#processor = new Processor({
      lanes: this.#crews.map((crew) => crew.lane),
      options: this.#options,
      ...handlersOf(handlers, this.#options.batch),
      events: this.#processorEvents(),
      hint: (lane, dueMs) => this.#crewOf(lane).mover.hint(dueMs),
    });
    if (this.#options.autostart) void this.#startInTheEnd();
  }

  /** Jobs whose handlers run now. */
  get running(): number {
    return this.#processor.running;
  }

  /** Starts taking jobs; resolves when it is connected. Called for you unless `autostart` is false. */
  start(): Promise<void> {
    if (this.#closed !== undefined) return Promise.reject(new JobsClosedError("the worker"));
    this.#started ??= this.#start();
    return this.#started;
  }

  /**
   * Takes nothing more, hands back what was fetched ahead, waits for the running handlers (at most
   * `closeWithinMs`, then their signals are aborted and their leases run out) and leaves.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Nobody waits for a worker that starts by itself: it tries until it can. */
  async #startInTheEnd(): Promise<void> {
    while (this.#closed === undefined) {
      try {
        await this.start();
        return;
      } catch (error) {
        this.#fault(error);
        this.#started = undefined;
        await sleep(RESTART_MS, this.#closing.signal).catch(() => {}); // closed: the loop ends
      }
    }
  }

  async #start(): Promise<void> {
    const lanes = this.#crews.map((crew) => crew.lane);
    const firstKey = lanes[0]?.store.keys.wake as string;
    await Promise.all(lanes.map((lane) => lane.store.register()));
    const connection = await this.#redis.blocking("jobs-worker", firstKey);
    const control = await this.#redis.subscriber("jobs-control").catch(async (error) => {
      await connection.close();
      throw error;
    });
    this.#control = control;
    this.#watcher = new Watcher(connection, lanes, {
      idleMs: this.#options.idleMs,
      onWake: (woken) => this.#woken(woken),
      onHandedOver: (lane, job) => {
        this.#processor.handedOver(lane, job);
        this.#crewOf(lane).heartbeat.wake(); // it may have waited there for us: renew its lease
      },
      onReturned: () => this.#processor.pump(),
      onError: (error) => this.#fault(error),
    });
    await Promise.all(this.#crews.map((crew) => this.#listen(control, crew)));
    control.onGap(() => this.#missedSomething());
    if (this.#closed !== undefined) return;
    for (const { mover, heartbeat, scheduler } of this.#crews) {
      mover.start();
      heartbeat.start();
      scheduler.start();
    }
    this.#processor.start();
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    await this.#started?.catch(() => {});
    this.#processor.stop();
    await this.#watcher?.close();
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), this.#options.closeWithinMs);
    if (!(await this.#processor.quiet(patience.signal))) {
      this.#logger.warn(
        { running: this.running },
        "closed with jobs running: their leases run out",
      );
    }
    clearTimeout(timer);
    this.#processor.end(new JobsClosedError("the worker"));
    await this.#control?.close();
    await Promise.all(this.#crews.map((crew) => this.#dismiss(crew)));
  }

  async #dismiss({ lane, mover, heartbeat, scheduler }: Crew): Promise<void> {
    lane.close();
    await Promise.all([mover.close(), scheduler.close()]);
    await heartbeat.close().catch((error) => this.#fault(error)); // the entry goes stale by itself
  }

  #crew(queue: string, description: string): Crew {
    const { prefix, leaseMs, logLines, idleMs } = this.#options;
    const store = new QueueStore(this.#redis, prefix, queue);
    const lane = new Lane({ store, logLines, worker: this.id, leaseMs, idleMs });
    const onError = (error: unknown) => this.#fault(error);
    const mover = new Mover(store, { onMoved: () => this.#woken([lane]), onError });
    const book = new ScheduleBook(store);
    return {
      lane,
      mover,
      heartbeat: new Heartbeat(store, {
        worker: this.id,
        leaseMs,
        description,
        held: lane.held,
        onLost: (attempt, error) => this.#processor.lose(lane, attempt, error),
        onError,
      }),
      scheduler: new Loop({
        tick: async () => Math.min(SCHEDULE_MS, (await book.fireDue()) ?? SCHEDULE_MS),
        onError,
      }),
    };
  }

  #crewOf(lane: Lane): Crew {
    return this.#crews.find((crew) => crew.lane === lane) as Crew;
  }

  async #listen(control: Subscriber, crew: Crew): Promise<void> {
    await control.subscribe(crew.lane.store.keys.control, (message) => {
      const text = message.toString();
      if (text === "due") crew.mover.hint(0);
      else if (text === "plan") crew.scheduler.wake();
      else if (crew.lane.held.has(text.slice("cancel ".length))) crew.heartbeat.wake();
    });
  }

  /** Control messages may have been lost: look at everything they could have been about. */
  #missedSomething(): void {
    for (const { mover, scheduler, heartbeat } of this.#crews) {
      mover.hint(0);
      scheduler.wake();
      heartbeat.wake();
    }
  }

  #woken(lanes: readonly Lane[]): void {
    if (this.#processor.room <= 0 && this.#closed === undefined) {
      // We took the only marker but have no use for it: somebody else may.
      for (const { store } of lanes) {
        store.send("ZADD", store.keys.wake, "0", "0").catch((error) => this.#fault(error));
      }
    }
    for (const lane of lanes) lane.dry = false;
    this.#processor.pump();
  }

  #processorEvents() {
    return {
      onActive: (job: Attempt) => void this.emit("active", job),
      onCompleted: (job: Attempt, result: unknown) => void this.emit("completed", job, result),
      onFailed: (job: Attempt, error: unknown, final: boolean) =>
        void this.emit("failed", job, error, final),
      onLost: (id: string) => {
        this.#logger.warn({ id, worker: this.id }, "the lease of a job was lost");
        this.emit("lost", id);
      },
      onError: (error: unknown) => this.#fault(error),
      onIdle: () => this.#watcher?.watch(),
    };
  }

  #fault(error: unknown): void {
    this.#logger.warn({ err: error, worker: this.id, queues: this.queues }, "job worker");
    if (this.listenerCount("error") > 0) this.emit("error", error);
  }

  #checkSlots(): void {
    if (this.#redis.topology !== "cluster") return;
    const slots = new Set(this.#crews.map(({ lane }) => slotOf(lane.store.keys.wake)));
    if (slots.size > 1) {
      const needed = 'with a hash tag, as in "{shop}", for several queues on Redis Cluster';
      throw new InvalidOptionError("prefix", this.#options.prefix, needed);
    }
  }
}

/** Sorts out what the user gave. */
function handlersOf(handlers: Handlers, batch: number) {
  if (typeof handlers === "function") {
    if (batch > 0) {
      return { handlerOf: () => undefined, batchHandler: handlers as BatchHandler<unknown> };
    }
    return { handlerOf: () => handlers as Handler<unknown>, batchHandler: undefined };
  }
  if (batch > 0) throw new InvalidOptionError("batch", batch, "0 when there is a handler per name");
  const byName = new Map(Object.entries(handlers));
  return {
    handlerOf: (name: string) => byName.get(name) as Handler<unknown> | undefined,
    batchHandler: undefined,
  };
}
