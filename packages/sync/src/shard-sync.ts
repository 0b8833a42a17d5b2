/**
 * Synchronises one shard: one source server and its stream, into the target.
 *
 *   claim the checkpoint (epoch + 1)
 *        |
 *        +-- phase stream ----------> PSYNC after the checkpoint ---+CONTINUE--------------.
 *        |                                    | +FULLRESYNC                                v
 *        '-- else, or --restart --> PSYNC ? --+--> onResync --> load --> stream ------> [ stream ]
 *                                                              ^                           |
 *                                                              '----- history lost --------'
 *
 * The phase in the checkpoint is "load" from before the first key is written until after the last one, so a
 * run that dies in between begins the full synchronisation again.
 */
import { ConnectFailedError, ConnectionLostError, type Logger } from "@ropeway/core";
import { Backoff, sleep } from "@ropeway/core/internal";
import type { Translate } from "./apply/applier.ts";
import { Applier } from "./apply/applier.ts";
import type { Checkpoint, Position } from "./checkpoint.ts";
import { HistoryLostError, ResyncRequiredError } from "./errors.ts";
import type { ResolvedSyncOptions } from "./options.ts";
import type { Counters, SyncStatus } from "./progress.ts";
import type { Sink } from "./sink/sink.ts";
import type { Feed, Snapshot } from "./source/feed.ts";
import { PsyncFeed } from "./source/psync-feed.ts";

/** What a shard needs of its task. */
export interface ShardOptions {
  readonly shard: number;
  readonly options: ResolvedSyncOptions;
  readonly sink: Sink;
  readonly counters: Counters;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Opens the source, after a position if there is one. */
  attach(after: Position | undefined): Promise<Feed>;
  /** Loads a snapshot into the target. */
  load(snapshot: Snapshot, checkpoint: Checkpoint, again: boolean): Promise<void>;
  /** What is to be done once the stream has caught up with the end of the load. */
  settle(checkpoint: Checkpoint): Promise<void>;
  translator(checkpoint: Checkpoint): Translate;
  onStatus(status: SyncStatus): void;
  admit(commands: number, bytes: number): Promise<void> | undefined;
}

/** Synchronises one source server. */
export class ShardSync {
  readonly #plan: ShardOptions;
  #checkpoint: Checkpoint | undefined;

  constructor(plan: ShardOptions) {
    this.#plan = plan;
  }

  /** The checkpoint as of the last phase; undefined before the claim. */
  get checkpoint(): Checkpoint | undefined {
    return this.#checkpoint;
  }

  /** Raises the epoch. */
  async claim(): Promise<Checkpoint> {
    const { sink, shard, options } = this.#plan;
    this.#checkpoint = await sink.claim(shard, options.epoch);
    return this.#checkpoint;
  }

  /** Runs until the task's goal is reached or the signal aborts. */
  async run(): Promise<void> {
    const { options, counters, signal } = this.#plan;
    let checkpoint = this.#checkpoint ?? (await this.claim());
    const resumable = checkpoint.phase === "stream" && !options.restart && options.mode !== "stock";
    let feed = await this.#plan.attach(resumable ? checkpoint : undefined);
    try {
      while (!signal.aborted) {
        if (feed.snapshot !== undefined) {
          if (resumable && options.onResync === "stop") {
            throw new ResyncRequiredError(feed.where, checkpoint.offset);
          }
          counters.fullResyncs += 1;
          checkpoint = await this.#fill(feed, feed.snapshot, checkpoint);
          if (options.mode === "stock" || signal.aborted) return;
        } else counters.partialResyncs += 1;
        const next = await this.#follow(feed, checkpoint);
        if (next === undefined) return;
        ({ checkpoint } = next);
        await feed.close();
        feed = next.feed;
      }
    } finally {
      await feed.close();
    }
  }

  /** Loads the snapshot between two changes of phase. */
  async #fill(feed: Feed, snapshot: Snapshot, before: Checkpoint): Promise<Checkpoint> {
    const { sink, shard, options, onStatus, signal, logger } = this.#plan;
    const { replid, offset } = snapshot;
    const again = before.offset >= 0;
    let loading: Checkpoint = { ...before, phase: "load", replid, offset, db: 0 };
    onStatus("RDBRUNNING");
    if (options.mode === "increment") {
      // Only the changes are wanted: the snapshot is what it took to learn where they begin.
      while ((await snapshot.read(signal)) !== undefined);
    } else {
      loading = await sink.enter(shard, loading);
      logger.info({ shard, replid, offset, where: feed.where }, "full synchronisation begins");
      await this.#plan.load(snapshot, loading, again);
    }
    if (signal.aborted) return loading;
    const phase = options.mode === "stock" ? "done" : "stream";
    const loaded = await sink.enter(shard, { ...loading, phase });
    this.#checkpoint = loaded;
    return loaded;
  }

  /** Applies the stream; gives the feed of a new full synchronisation if the history is lost. */
  async #follow(
    feed: Feed,
    checkpoint: Checkpoint,
  ): Promise<{ feed: Feed; checkpoint: Checkpoint } | undefined> {
    const { sink, shard, options, counters, signal, onStatus, admit, logger } = this.#plan;
    const target = sink.stream(shard, checkpoint);
    const goal = await this.#untilKnown(feed);
    noteTo(counters, checkpoint);
    onStatus("COMMANDRUNNING");
    let settled = false;
    const applier = new Applier({
      feed,
      from: checkpoint,
      translate: this.#plan.translator(checkpoint),
      target,
      batchBytes: options.batchBytes,
      batchCommands: options.batchCommands,
      signal,
      admit,
      onApplied: (position, commands, bytes) => {
        counters.commands += commands;
        counters.streamBytes += bytes;
        noteTo(counters, position);
        counters.received = feed.received;
        if (feed.waiting === 0) counters.caughtUpAt = Date.now();
      },
    });
    try {
      // First up to what the source had when the load ended: then the held back expiries are settled.
      await applier.run((position) => position.offset >= goal);
      if (!signal.aborted && applier.position.offset >= goal) {
        settled = true;
        const settling = { ...checkpoint, ...applier.position };
        await this.#persistently(() => this.#plan.settle(settling));
        if (!options.once) await applier.run();
      }
      await target.finish?.();
    } catch (error) {
      if (!(error instanceof HistoryLostError)) throw error;
      const { offset } = applier.position;
      if (options.onResync === "stop") throw new ResyncRequiredError(feed.where, offset);
      logger.warn(
        { shard, offset, settled },
        "the source lost the history; synchronising fully again",
      );
      const next = feed instanceof PsyncFeed ? feed.succeed() : undefined;
      const position = applier.position;
      return {
        feed: next ?? (await this.#plan.attach(undefined)),
        checkpoint: { ...checkpoint, ...position },
      };
    } finally {
      target.close();
    }
    return undefined;
  }

  /** How far the source is at this moment. */
  #untilKnown(feed: Feed): Promise<number> {
    return this.#persistently(() => feed.end());
  }

  /** Does something that needs a connection as often as it takes, until the task is closed. */
  async #persistently<T>(work: () => Promise<T>): Promise<T> {
    const { signal, logger } = this.#plan;
    const backoff = new Backoff({ baseMs: 50, maxMs: 1_000 });
    for (;;) {
      try {
        return await work();
      } catch (error) {
        const passing = error instanceof ConnectionLostError || error instanceof ConnectFailedError;
        if (!passing || signal.aborted) throw error;
        logger.warn({ err: error }, "trying again");
        await sleep(backoff.next(), signal);
      }
    }
  }
}

function noteTo(counters: Counters, { replid, offset, db }: Position): void {
  counters.replid = replid;
  counters.offset = offset;
  counters.db = db;
}
