/**
 * A synchronisation task: the role that users start. It chooses a name, opens source and target, and runs one
 * ShardSync per shard of the source.
 *
 *   STOP -> CREATING -> STARTING -> RDBRUNNING -> COMMANDRUNNING -> FINISH
 *                          |             |              |  ^
 *                          '--+CONTINUE--+--------------'  FAILOVER (the source changed servers)
 *   any -> BROKEN (failed)          any -> STOP (closed)
 *
 * `start()` resolves when the target is claimed and the source is open. `finished` resolves when the goal is
 * reached or the task was closed, and rejects if it failed.
 */
import {
  AbortedError,
  ConnectFailedError,
  ConnectionLostError,
  type EventMap,
} from "@ropeway/core";
import { BackgroundRole, deferred, type Opening } from "@ropeway/core/internal";
import { type Assembly, assemble } from "./assembly.ts";
import { SlotsMovedError } from "./cluster/slot-fence.ts";
import { DiscardedLog } from "./discarded-log.ts";
import { type DiscardedRecord, ErrorBudget } from "./error-budget.ts";
import type { BigKeyRecord } from "./load/big-key-record.ts";
import { type ResolvedSyncOptions, resolveSyncOptions, type SyncOptions } from "./options.ts";
import { type Counters, RateMeter, type SyncProgress, type SyncStatus } from "./progress.ts";
import { RateLimiter } from "./rate-limiter.ts";
import type { ShardSync } from "./shard-sync.ts";
import type { Sink } from "./sink/sink.ts";
import { taskName } from "./task-name.ts";

/** The events of a task. */
export interface SyncEvents extends EventMap {
  /** The counters, once per `progressMs`. */
  progress: [progress: SyncProgress];
  /** The status changed. */
  status: [status: SyncStatus];
  /** A write failed and was recorded. */
  discarded: [record: DiscardedRecord];
  /** A key was too large for one transaction and was written in parts. */
  bigKey: [record: BigKeyRecord];
  /** The goal is reached, or the task was closed. */
  finished: [progress: SyncProgress];
}

/** Moves the data of a live Redis to another one, and keeps it in sync until it is closed. */
export class SyncTask extends BackgroundRole<SyncEvents> {
  readonly name: string;
  readonly #options: ResolvedSyncOptions;
  readonly #finished = deferred<SyncProgress>();
  readonly #opsMeter = new RateMeter();
  readonly #bytesMeter = new RateMeter();
  #counters: readonly Counters[] = [];
  #status: SyncStatus = "STOP";
  #epoch = 0;
  readonly #discarded = new DiscardedLog((records) => this.#sink?.record("discarded", records));
  #sink: Sink | undefined;
  readonly #budget: ErrorBudget;
  #held: { promise: Promise<void>; resolve(): void } | undefined;

  constructor(options: SyncOptions) {
    const resolved = resolveSyncOptions(options);
    super("the sync task", resolved.logger);
    this.#options = resolved;
    this.name = resolved.name ?? taskName(resolved);
    this.#budget = new ErrorBudget(resolved.maxErrors, (record) => {
      this.#discarded.add(record);
      this.emit("discarded", record);
    });
    this.#finished.promise.catch(() => {}); // callers that await it get the error
  }

  /** The status of the task. */
  get status(): SyncStatus {
    return this.#status;
  }

  /** Resolves with the last counters when the goal is reached or the task was closed; rejects if it failed. */
  get finished(): Promise<SyncProgress> {
    return this.#finished.promise;
  }

  /** The current counters. */
  progress(): SyncProgress {
    const sum = (pick: (counters: Counters) => number | undefined): number =>
      this.#counters.reduce((total, counters) => total + (pick(counters) ?? 0), 0);
    const reasons: Record<string, number> = {};
    for (const counters of this.#counters) {
      for (const [reason, count] of counters.reasons)
        reasons[reason] = (reasons[reason] ?? 0) + count;
    }
    const keys = sum((c) => c.keys);
    const commands = sum((c) => c.commands);
    const snapshotBytes = sum((c) => c.snapshotBytes);
    const bytes = snapshotBytes + sum((c) => c.streamBytes);
    const lags = this.#counters.map((c) => c.lagMs);
    return {
      phase: this.#status,
      keys,
      totalKeys: sum((c) => c.totalKeys) || undefined,
      bytes,
      snapshotBytes,
      totalSnapshotBytes: sum((c) => c.totalSnapshotBytes) || undefined,
      commands,
      opsPerS: Math.round(this.#opsMeter.read(keys + commands)),
      bytesPerS: Math.round(this.#bytesMeter.read(bytes)),
      lagMs: lags.some((lag) => lag === undefined) ? undefined : Math.max(0, ...(lags as number[])),
      lagBytes: sum((c) => Math.max(0, c.received - c.offset)),
      offset: sum((c) => c.offset),
      positions: this.#counters.flatMap(({ replid, offset, db }) =>
        replid === undefined ? [] : [{ replid, offset, db }],
      ),
      epoch: this.#epoch,
      reasons,
      errors: this.#budget.spent,
      partialResyncs: sum((c) => c.partialResyncs),
      fullResyncs: sum((c) => c.fullResyncs),
      stalled: this.#counters.find((c) => c.stalled !== undefined)?.stalled,
    };
  }

  protected override async open(opening: Opening): Promise<void> {
    this.#enter("CREATING");
    const stop = new AbortController();
    const abort = () => stop.abort();
    opening.signal.addEventListener("abort", abort, { once: true });
    if (opening.signal.aborted) abort();
    try {
      const generation = await this.#begin(stop.signal, this.#options.restart);
      const running = this.#run(generation, stop.signal);
      const timer = setInterval(
        () => this.emit("progress", this.progress()),
        this.#options.progressMs,
      );
      opening.defer(async () => {
        clearInterval(timer);
        this.#release();
        stop.abort();
        await running;
      });
    } catch (error) {
      stop.abort();
      if (!opening.signal.aborted) this.#enter("BROKEN");
      throw error;
    }
  }

  /** Opens both ends for the current masters of the source. */
  async #begin(signal: AbortSignal, restart: boolean): Promise<Generation> {
    const stop = new AbortController();
    const assembly = await this.#assemble(AbortSignal.any([signal, stop.signal]), restart);
    const { sink, shards, counters, fence } = assembly;
    this.#sink = sink;
    this.#counters = counters;
    try {
      for (const shard of shards) {
        this.#epoch = Math.max(this.#epoch, (await shard.claim()).epoch);
      }
      // If the source has as many masters again, an old checkpoint must not count: others copy those keys meanwhile.
      for (const orphan of (await fence?.orphans()) ?? []) {
        const left = await sink.claim(orphan, this.#options.epoch);
        await sink.move(orphan, { ...left, phase: "load" });
      }
      this.#enter("STARTING");
      await attachAll(shards);
    } catch (error) {
      stop.abort();
      fence?.close();
      sink.close();
      throw error;
    }
    return { ...assembly, stop };
  }

  protected override hold(): void {
    let resolve = () => {};
    const promise = new Promise<void>((done) => {
      resolve = done;
    });
    this.#held = { promise, resolve };
  }

  protected override release(): void {
    this.#release();
  }

  #release(): void {
    this.#held?.resolve();
    this.#held = undefined;
  }

  #assemble(signal: AbortSignal, restart: boolean): Promise<Assembly> {
    const options = { ...this.#options, restart };
    const limiter = new RateLimiter(options, signal);
    return assemble({
      ...{ task: this.name, options, signal, limiter },
      budget: this.#budget,
      logger: options.logger,
      admit: (commands, bytes) =>
        this.#held === undefined
          ? limiter.admit(commands, bytes)
          : this.#held.promise.then(() => limiter.admit(commands, bytes)),
      onStatus: (status) => this.#enter(status),
      onBigKey: (record) => this.emit("bigKey", record),
    });
  }

  async #run(first: Generation, signal: AbortSignal): Promise<void> {
    try {
      for (let generation = first; ; ) {
        const moved = await runAll(generation);
        if (moved === undefined) break;
        this.#options.logger.warn(
          { err: moved },
          "the task restarts with the current masters of the source",
        );
        generation = await this.#begin(signal, moved.lost);
      }
      await this.#discarded.written();
      this.#end(this.closing.aborted ? "STOP" : "FINISH");
    } catch (error) {
      await this.#discarded.written();
      if (this.closing.aborted && isInterruption(error)) {
        this.#end("STOP"); // it failed because it was closed
        return;
      }
      this.#enter("BROKEN");
      this.#finished.reject(error);
      this.report(error);
    }
  }

  #end(status: "STOP" | "FINISH"): void {
    this.#enter(status);
    const progress = this.progress();
    this.emit("finished", progress);
    this.#finished.resolve(progress);
  }

  #enter(status: SyncStatus): void {
    if (status === this.#status) return;
    this.#status = status;
    this.emit("status", status);
  }
}

/** The shards of one slot map. A source whose masters change needs a new generation. */
interface Generation extends Assembly {
  readonly stop: AbortController;
}

/** Runs all shards to their end. Returns the error if the source has other masters now. */
async function runAll({
  shards,
  sink,
  fence,
  stop,
}: Generation): Promise<SlotsMovedError | undefined> {
  const runs = shards.map((shard) => shard.run());
  // The watch ends only with an error, or when everything else has ended.
  const watching = fence?.watch().then(() => Promise.allSettled(runs));
  try {
    await Promise.race([Promise.all(runs), ...(watching === undefined ? [] : [watching])]);
    await Promise.all(runs);
    return undefined;
  } catch (error) {
    if (error instanceof SlotsMovedError) return error;
    throw error;
  } finally {
    stop.abort();
    await Promise.allSettled(runs);
    fence?.close();
    sink.close();
  }
}

/** Opens all sources, or none. A shard that loads after others is opened when those run. */
async function attachAll(shards: readonly ShardSync[]): Promise<void> {
  const outcomes = await Promise.allSettled(shards.map((shard) => shard.attach()));
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed === undefined) return;
  await Promise.all(shards.map((shard) => shard.close()));
  throw failed.reason;
}

/** Whether an error is only a consequence of closing. */
function isInterruption(error: unknown): boolean {
  return (
    error instanceof AbortedError ||
    error instanceof ConnectionLostError ||
    error instanceof ConnectFailedError
  );
}
