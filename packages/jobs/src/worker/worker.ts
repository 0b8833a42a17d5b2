/** Takes jobs from one queue, or from several in order, and runs their handlers. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { ClosedError, InvalidOptionError, type Redis, ServerReplyError } from "@ropeway/core";
import {
  BackgroundRole,
  Loop,
  type Opening,
  requireRedis,
  type Subscriber,
  sleep,
  slotOf,
} from "@ropeway/core/internal";
import type { AnyJobs, JobName, JobResult, JobTypes } from "../definition.ts";
import { Relay } from "../flow/relay.ts";
import { resolveWorkerOptions, type WorkerOptions } from "../options.ts";
import { SandboxPool } from "../sandbox/sandbox-pool.ts";
import { Scheduler } from "../schedule/scheduler.ts";
import { QueueStore } from "../store/queue-store.ts";
import { ScheduleStore } from "../store/schedule-store.ts";
import type { Attempt } from "./attempt.ts";
import { type AnyJobContext, type BatchHandler, HandlerCaller, type Handlers } from "./handler.ts";
import { Heartbeat } from "./heartbeat.ts";
import { Mover } from "./mover.ts";
import { Processor } from "./processor.ts";
import type { ProcessorEvents } from "./runner.ts";
import { Source } from "./source.ts";
import { WakeWatcher } from "./wake-watcher.ts";

/** The events of a worker. `completed` and `failed` are emitted after Redis has confirmed the outcome. */
export interface WorkerEvents<Jobs extends JobTypes<Jobs> = AnyJobs> {
  active: [job: AnyJobContext<Jobs>];
  completed: [job: AnyJobContext<Jobs>, result: JobResult<Jobs, JobName<Jobs>>];
  /** `final`: the job will not be tried again. */
  failed: [job: AnyJobContext<Jobs>, error: unknown, final: boolean];
  /** The lease was lost; another worker has the job or will have it. */
  lost: [id: string];
  error: [error: unknown];
}

const SCHEDULE_MS = 5_000;
/** How often to check for events that the control channel would have reported. */
const WITHOUT_CONTROL_MS = 1_000;

/** The components that serve one queue. */
interface Service {
  readonly source: Source;
  readonly mover: Mover;
  readonly heartbeat: Heartbeat;
  readonly scheduler: Loop;
}

/**
 * Runs the jobs of a queue, or of several queues in order: a job of a later queue is taken only when the
 * queues before it have none. It starts by itself unless `autostart` is false. close() waits for the
 * running handlers (at most `closeWithinMs`, then their signals are aborted and their leases expire).
 */
export class Worker<Jobs extends JobTypes<Jobs> = AnyJobs> extends BackgroundRole<
  WorkerEvents<Jobs>
> {
  /** Unique for this object; part of every token. */
  readonly id: string = randomBytes(6).toString("base64url");
  readonly queues: readonly string[];
  readonly #redis: Redis;
  readonly #options: Required<WorkerOptions>;
  readonly #services: readonly Service[];
  readonly #processor: Processor;
  readonly #pool: SandboxPool | undefined;
  #watcher: WakeWatcher | undefined;

  /** Runs the `handlers` that the file exports, in separate processes or threads. */
  constructor(
    redis: Redis,
    queues: string | readonly string[],
    file: URL,
    options?: WorkerOptions<Jobs> & { readonly batch?: 0 },
  );
  constructor(
    redis: Redis,
    queues: string | readonly string[],
    handler: BatchHandler<Jobs>,
    options: WorkerOptions<Jobs> & { readonly batch: number },
  );
  // Last, because the compiler explains an error by the last of several signatures.
  constructor(
    redis: Redis,
    queues: string | readonly string[],
    handlers: Handlers<Jobs>,
    options?: WorkerOptions<Jobs> & { readonly batch?: 0 },
  );
  // biome-ignore lint/complexity/useMaxParams: users of queue libraries know this signature
  constructor(
    redis: Redis,
    queues: string | readonly string[],
    handlers: Handlers<Jobs> | BatchHandler<Jobs> | URL,
    options?: WorkerOptions<Jobs>,
  ) {
    requireRedis(redis);
    const resolved = resolveWorkerOptions(options as WorkerOptions<never>);
    super("the worker", resolved.logger ?? redis.logger);
    this.#redis = redis;
    this.#options = resolved;
    this.queues = [queues].flat();
    if (this.queues.length === 0 || new Set(this.queues).size < this.queues.length) {
      throw new InvalidOptionError("queues", queues, "at least one name, each of them once");
    }
    const description = JSON.stringify({
      name: resolved.name || `${hostname()}:${process.pid}`,
      concurrency: resolved.concurrency,
      leaseMs: resolved.leaseMs,
      startedAt: Date.now(),
    });
    if (handlers instanceof URL) {
      if (resolved.batch > 0)
        throw new InvalidOptionError("batch", resolved.batch, "0 with a file");
      this.#pool = new SandboxPool(handlers, resolved.sandbox);
    }
    this.#services = this.queues.map((queue) => this.#serve(queue, description));
    this.#checkSlots();
    this.#processor = new Processor({
      sources: this.#services.map(({ source }) => source),
      options: resolved,
      caller: new HandlerCaller(this.#pool?.handler ?? handlers, resolved),
      events: this.#processorEvents(),
      hint: (source, dueMs) => this.#serviceOf(source).mover.hint(dueMs),
      claim: (source, attempts) => this.#serviceOf(source).heartbeat.claim(attempts),
    });
    if (resolved.autostart) void this.#startEventually();
  }

  /** Jobs whose handlers run now. */
  get running(): number {
    return this.#processor.running;
  }

  protected async open({ signal, defer }: Opening): Promise<void> {
    const sources = this.#services.map(({ source }) => source);
    defer(() => this.#pool?.close());
    await Promise.all(sources.map(({ store }) => store.register()));
    const firstKey = sources[0]?.store.keys.wake as string;
    const connection = await this.#redis.blocking("jobs-worker", firstKey);
    const watcher = new WakeWatcher(connection, sources, {
      idleMs: this.#options.idleMs,
      onWake: (woken) => this.#woken(woken),
      onHandedOver: (source, job) => this.#processor.handedOver(source, job),
      onReturned: () => this.#processor.pump(),
      onError: (error) => this.report(error),
    });
    defer(() => watcher.close());
    await this.#listen(defer);
    if (signal.aborted) return;
    this.#watcher = watcher;
    for (const service of this.#services) this.#startService(service, defer);
    defer(() => this.#finish(watcher));
    if (!this.held) this.#processor.start();
  }

  /** pause(): takes no more jobs and hands back jobs that were fetched ahead. Running handlers continue. */
  protected override hold(): void {
    this.#processor.stop();
    this.#watcher?.interrupt();
  }

  protected override release(): void {
    this.#processor.start();
  }

  /** No caller waits for a worker that starts by itself, so it retries until it has started. */
  async #startEventually(): Promise<void> {
    while (!this.closing.aborted) {
      try {
        await this.start();
        return;
      } catch (error) {
        if (this.closing.aborted) return;
        this.report(error);
        await sleep(1_000, this.closing).catch(() => {}); // closed: the loop ends
      }
    }
  }

  #startService({ source, mover, heartbeat, scheduler }: Service, defer: Opening["defer"]): void {
    mover.start();
    heartbeat.start();
    scheduler.start();
    defer(async () => {
      source.close();
      await Promise.all([mover.close(), scheduler.close()]);
      await heartbeat.close();
    });
  }

  /** Waits for running handlers. Handlers that take longer lose their leases. */
  async #finish(watcher: WakeWatcher): Promise<void> {
    this.#processor.stop();
    await watcher.close();
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), this.#options.closeWithinMs);
    const quiet = await this.#processor.quiet(patience.signal);
    clearTimeout(timer);
    if (!quiet) {
      const message = "the worker was closed with jobs running: their leases will expire";
      this.#redis.logger.warn({ running: this.running, worker: this.id }, message);
    }
    this.#processor.end(new ClosedError("the worker"));
  }

  #serve(queue: string, description: string): Service {
    const { prefix, leaseMs, logLines, idleMs } = this.#options;
    const store = new QueueStore(this.#redis, prefix, queue);
    const onError = (error: unknown) => this.report(error);
    // With several queues the worker may be busy with another one: no job is handed over to it.
    const blocks = this.queues.length > 1 ? 0 : idleMs;
    const definitions = this.#options.jobs;
    const how = { logLines, definitions, worker: this.id, leaseMs, idleMs: blocks, onError };
    const source = new Source({ store, ...how });
    const relay = new Relay(store, onError);
    const onMoved = () => this.#woken([source]);
    const scheduler = new Scheduler(new ScheduleStore(store));
    return {
      source,
      mover: new Mover(store, { leaseMs, relay, onMoved, onError }),
      heartbeat: new Heartbeat(store, {
        worker: this.id,
        leaseMs,
        description,
        held: source.held,
        onLost: (attempt, error) => this.#processor.lose(source, attempt, error),
        onError,
      }),
      scheduler: new Loop({
        tick: async () => Math.min(SCHEDULE_MS, (await scheduler.fireDue(onError)) ?? SCHEDULE_MS),
        onError,
      }),
    };
  }

  #serviceOf(source: Source): Service {
    return this.#services.find((service) => service.source === source) as Service;
  }

  /** The control channel reports changes at once. Without rights on it, the worker polls. */
  async #listen(defer: Opening["defer"]): Promise<void> {
    const control = await this.#redis.subscriber("jobs-control");
    defer(() => control.close());
    try {
      await Promise.all(this.#services.map((service) => this.#subscribe(control, service)));
      control.onGap(() => this.#lookAtEverything());
    } catch (error) {
      if (!(error instanceof ServerReplyError) || error.prefix !== "NOPERM") throw error;
      await control.close();
      this.report(error);
      for (const { mover } of this.#services) mover.lookEvery(WITHOUT_CONTROL_MS);
    }
  }

  async #subscribe(control: Subscriber, service: Service): Promise<void> {
    await control.subscribe(service.source.store.keys.control, (message) => {
      const text = message.toString();
      if (text === "due") service.mover.hint(0);
      else if (text === "plan") service.scheduler.wake();
      else if (service.source.held.has(text.slice("cancel ".length))) service.heartbeat.wake();
    });
  }

  /** Control messages may have been lost, so everything they could have announced is checked. */
  #lookAtEverything(): void {
    for (const { mover, scheduler, heartbeat } of this.#services) {
      mover.hint(0);
      scheduler.wake();
      heartbeat.wake();
    }
  }

  #woken(sources: readonly Source[]): void {
    if (this.#processor.room <= 0 && !this.closing.aborted) {
      // We took the only marker but have no free slot. Another worker may have one.
      for (const { store } of sources) store.wake().catch((error) => this.report(error));
    }
    for (const source of sources) source.dry = false;
    this.#processor.pump();
  }

  #processorEvents(): ProcessorEvents {
    const typed = (job: Attempt) => job as unknown as AnyJobContext<Jobs>;
    const resultOf = (value: unknown) => value as JobResult<Jobs, JobName<Jobs>>;
    return {
      onActive: (job) => this.emit("active", typed(job)),
      onCompleted: (job, result) => this.emit("completed", typed(job), resultOf(result)),
      onFailed: (job, error, final) => this.emit("failed", typed(job), error, final),
      onLost: (id) => {
        this.#redis.logger.warn({ id, worker: this.id }, "the lease of a job was lost");
        this.emit("lost", id);
      },
      onError: (error) => this.report(error),
      onIdle: () => this.#watcher?.watch(),
    };
  }

  #checkSlots(): void {
    if (this.#redis.topology !== "cluster") return;
    const slots = new Set(this.#services.map(({ source }) => slotOf(source.store.keys.wake)));
    if (slots.size > 1) {
      const needed = 'with a hash tag, as in "{shop}", for several queues on Redis Cluster';
      throw new InvalidOptionError("prefix", this.#options.prefix, needed);
    }
  }
}
