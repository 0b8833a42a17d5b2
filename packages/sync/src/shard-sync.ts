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
 * run that dies in between starts the full synchronisation again.
 */
import { ConnectFailedError, ConnectionLostError, type Logger } from "@ropeway/core";
import { Backoff, sleep } from "@ropeway/core/internal";
import type { Translate } from "./apply/applier.ts";
import { Applier } from "./apply/applier.ts";
import type { VanishedKeys } from "./apply/vanished-keys.ts";
import type { Checkpoint, Position } from "./checkpoint.ts";
import type { SlotFence } from "./cluster/slot-fence.ts";
import {
  HistoryLostError,
  ResyncRequiredError,
  SourceFileError,
  TargetRewoundError,
} from "./errors.ts";
import type { ResolvedSyncOptions } from "./options.ts";
import type { Counters, SyncStatus } from "./progress.ts";
import type { Sink } from "./sink/sink.ts";
import type { Feed, Snapshot } from "./source/feed.ts";
import { isFileUrl } from "./source/file-source.ts";
import { HistoryForkedError } from "./source/history-fork.ts";
import { PsyncFeed } from "./source/psync-feed.ts";

/** The options of a shard. */
export interface ShardOptions {
  readonly shard: number;
  readonly options: ResolvedSyncOptions;
  readonly sink: Sink;
  readonly counters: Counters;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Opens the source, after the position if one is given. */
  attach(after: Position | undefined): Promise<Feed>;
  /** Orders the shards of a cluster; undefined for other sources. */
  readonly fence?: SlotFence | undefined;
  /** The offset at which the history of the source departs from the target's, if it is before the position. */
  fork(position: Position): Promise<number | undefined>;
  /** Loads a snapshot into the target. */
  load(snapshot: Snapshot, checkpoint: Checkpoint, again: boolean): Promise<void>;
  /** Completes the load once the stream has caught up with its end. */
  settle(checkpoint: Checkpoint): Promise<void>;
  translator(checkpoint: Checkpoint): Translate;
  /** Finds keys that the target expired too early; undefined if it expires none, or they cannot be read again. */
  readonly vanished: VanishedKeys | undefined;
  onStatus(status: SyncStatus): void;
  admit(commands: number, bytes: number): Promise<void> | undefined;
}

/** Synchronises one source server. */
export class ShardSync {
  readonly #plan: ShardOptions;
  #checkpoint: Checkpoint | undefined;
  #feed: Feed | undefined;
  /** Delays repeated attempts if the source cannot send a whole snapshot. */
  readonly #patience = new Backoff({ baseMs: 500, maxMs: 30_000 });
  /** Whether a stream was reached, so that `restart` no longer applies. */
  #begun = false;
  /** Whether everything was copied and no stream follows. */
  #copied = false;

  constructor(plan: ShardOptions) {
    this.#plan = plan;
  }

  /** The checkpoint as of the last phase; undefined before the claim. */
  get checkpoint(): Checkpoint | undefined {
    return this.#checkpoint;
  }

  /** Increments the epoch. */
  async claim(): Promise<Checkpoint> {
    const { sink, shard, options } = this.#plan;
    this.#checkpoint = await sink.claim(shard, options.epoch);
    return this.#checkpoint;
  }

  /**
   * Opens the source, after the checkpoint if the target has the data before it. A full synchronisation that must wait
   * for other shards is left to run(), because they advance only when all shards run.
   */
  async attach(): Promise<void> {
    const { fence, shard } = this.#plan;
    this.#feed = await this.#resume(this.#checkpoint ?? (await this.claim()));
    if (this.#feed === undefined && (fence === undefined || (await fence.isFree(shard)))) {
      this.#feed = await this.#request();
    }
  }

  async #open(checkpoint: Checkpoint): Promise<Feed> {
    return (await this.#resume(checkpoint)) ?? this.#fresh();
  }

  /**
   * Opens the source after the checkpoint; undefined if a full synchronisation is due. A checkpoint after a fork of the
   * history moves back to it, if nothing was written since.
   */
  async #resume(checkpoint: Checkpoint): Promise<Feed | undefined> {
    const { attach, fork, fence, sink, shard, options } = this.#plan;
    this.#checkpoint = checkpoint;
    if (!this.#resumes(checkpoint)) return this.#abandon(checkpoint);
    const offset = await fork(checkpoint);
    if (offset !== undefined && (checkpoint.written ?? checkpoint.offset) <= offset) {
      this.#checkpoint = { ...checkpoint, offset };
      await sink.move(shard, this.#checkpoint);
    }
    await fence?.begin(shard);
    const feed = await attach(this.#checkpoint);
    if (feed.snapshot === undefined) return feed;
    if (options.onResync === "full" && fence === undefined) return feed;
    await feed.close();
    if (options.onResync === "stop") throw new ResyncRequiredError(feed.where, checkpoint.offset);
    return this.#abandon(this.#checkpoint);
  }

  /**
   * Gives up the stream after the checkpoint. With several shards this is recorded before any of them loads: another
   * shard may copy the data of this checkpoint's master, so no later run may apply that stream again.
   */
  async #abandon(checkpoint: Checkpoint): Promise<undefined> {
    const { fence, sink, shard } = this.#plan;
    if (fence === undefined || checkpoint.phase !== "stream") return;
    this.#checkpoint = { ...checkpoint, phase: "load" };
    await sink.move(shard, this.#checkpoint);
  }

  /** Opens the source for a full synchronisation, when the other shards allow it. */
  async #fresh(): Promise<Feed> {
    await this.#plan.fence?.ready(this.#plan.shard);
    return this.#request();
  }

  async #request(): Promise<Feed> {
    const { fence, shard, attach } = this.#plan;
    await fence?.begin(shard);
    return attach(undefined);
  }

  /**
   * The last byte of the stream that is applied; infinite if there is none and all is copied; undefined while a full
   * synchronisation is under way or due.
   */
  get applied(): number | undefined {
    if (this.#copied) return Number.POSITIVE_INFINITY;
    if (this.#checkpoint === undefined || !this.#resumes(this.#checkpoint)) return undefined;
    return Math.max(this.#plan.counters.offset, this.#checkpoint.offset);
  }

  /** Closes a source that was opened and will not run. */
  async close(): Promise<void> {
    await this.#feed?.close();
  }

  /** Runs until the task's goal is reached or the signal aborts. */
  async run(): Promise<void> {
    const { signal } = this.#plan;
    try {
      this.#feed ??= await this.#persistently(() => this.#fresh());
      let checkpoint = this.#checkpoint as Checkpoint;
      while (!signal.aborted) {
        try {
          const next = await this.#pass(this.#feed as Feed, checkpoint);
          if (next === undefined) return;
          await this.#replace(next.feed);
          checkpoint = next.checkpoint;
        } catch (error) {
          const left = await this.#recover(error, checkpoint);
          await this.#replace(await this.#persistently(() => this.#open(left)));
          checkpoint = this.#checkpoint as Checkpoint;
        }
      }
    } finally {
      await this.close();
    }
  }

  #resumes({ phase }: Checkpoint): boolean {
    const { restart, mode, from } = this.#plan.options;
    // In mode stock there is a stream only if the source is a file of commands.
    const follows = mode !== "stock" || isFileUrl(from);
    return phase === "stream" && follows && (!restart || this.#begun);
  }

  async #replace(feed: Feed): Promise<void> {
    await this.#feed?.close();
    this.#feed = feed;
  }

  /** Loads the snapshot, if there is one, and follows the stream. Returns the feed to continue with, if any. */
  async #pass(feed: Feed, before: Checkpoint): Promise<Next | undefined> {
    const { options, counters, signal } = this.#plan;
    let checkpoint = before;
    if (feed.snapshot !== undefined) {
      counters.fullResyncs += 1;
      checkpoint = await this.#load(feed, feed.snapshot, checkpoint);
      if (options.mode === "stock" || signal.aborted) return undefined;
    } else if (isAnew(feed, checkpoint)) checkpoint = await this.#enterFile(feed, checkpoint);
    else counters.partialResyncs += 1;
    this.#begun = true;
    this.#patience.reset();
    return this.#follow(feed, checkpoint);
  }

  /** Starts a file of commands without a snapshot. Its bytes are counted from here, so that none is applied twice. */
  async #enterFile({ replid, where }: Feed, before: Checkpoint): Promise<Checkpoint> {
    const { sink, shard, options } = this.#plan;
    if (before.offset > 0 && !options.restart) {
      const problem = `it changed after ${before.offset} bytes of it were applied, and has no snapshot to begin with`;
      const advice = "Empty the target and begin anew with restart (--restart)";
      throw new SourceFileError(where, new Error(`${problem}. ${advice}`));
    }
    const begun = { ...before, phase: "stream", replid, offset: 0, db: 0, written: 0 } as const;
    this.#checkpoint = await sink.enter(shard, begun);
    return this.#checkpoint;
  }

  /** The checkpoint to continue from after a fault. Throws if the fault cannot be repaired. */
  async #recover(error: unknown, checkpoint: Checkpoint): Promise<Checkpoint> {
    const { sink, shard, signal, logger } = this.#plan;
    if (signal.aborted) throw error;
    if (error instanceof LoadInterruptedError) {
      logger.warn({ err: error.cause, shard }, "the full synchronisation is repeated");
      await sleep(this.#patience.next(), signal);
      return { ...checkpoint, phase: "load" };
    }
    if (error instanceof StreamForkedError)
      return { ...checkpoint, ...error.position, phase: "stream" };
    if (!(error instanceof TargetRewoundError)) throw error;
    logger.warn(
      { err: error, shard },
      "the target lost writes; they are read from the source again",
    );
    this.#checkpoint = await this.#persistently(() => sink.claim(shard, checkpoint.epoch));
    return this.#checkpoint;
  }

  /** Loads a snapshot. If the connection is lost meanwhile, all of it is loaded again. */
  async #load(feed: Feed, snapshot: Snapshot, before: Checkpoint): Promise<Checkpoint> {
    try {
      return await this.#fill(feed, snapshot, before);
    } catch (error) {
      throw isPassing(error) ? new LoadInterruptedError(error) : error;
    }
  }

  /** Loads the snapshot between two changes of phase. */
  async #fill(feed: Feed, snapshot: Snapshot, before: Checkpoint): Promise<Checkpoint> {
    const { sink, shard, options, onStatus, signal, logger, fence } = this.#plan;
    const { replid, offset } = snapshot;
    const again = before.offset >= 0;
    this.#plan.counters.offset = 0;
    let loading: Checkpoint = { ...before, phase: "load", replid, offset, db: 0, written: offset };
    onStatus("RDBRUNNING");
    if (options.mode === "increment") {
      // Only the changes are copied. The snapshot is read because it tells where they begin.
      while ((await snapshot.read(signal)) !== undefined);
    } else {
      loading = await sink.enter(shard, loading);
      this.#checkpoint = loading;
      logger.info({ shard, replid, offset, where: feed.where }, "full synchronisation begins");
      const begun = fence === undefined ? snapshot : await begin(snapshot, signal);
      if (await fence?.gained(shard)) {
        throw new LoadInterruptedError(new Error("slots were moved to this master of the source"));
      }
      await this.#plan.load(begun, loading, again);
    }
    if (signal.aborted) return loading;
    const phase = options.mode === "stock" ? "done" : "stream";
    const loaded = await sink.enter(shard, { ...loading, phase });
    this.#checkpoint = loaded;
    this.#copied = phase === "done";
    return loaded;
  }

  /** Applies the stream. Returns the feed of a new full synchronisation if the history is lost. */
  async #follow(feed: Feed, checkpoint: Checkpoint): Promise<Next | undefined> {
    const { sink, shard, options, counters, signal, onStatus, admit, logger, fence } = this.#plan;
    const { vanished } = this.#plan;
    const goal = await this.#untilKnown(feed);
    await vanished?.begin();
    const target = sink.stream(shard, checkpoint);
    noteTo(counters, checkpoint);
    counters.feed = feed;
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
      vanished,
      lateUntil: goal,
      ...(fence === undefined ? {} : { moves: fence.moves(shard) }),
      onApplied: (position, commands, bytes) => {
        counters.commands += commands;
        counters.streamBytes += bytes;
        noteTo(counters, position);
        if (feed.waiting === 0) counters.caughtUpAt = Date.now();
      },
    });
    try {
      // First up to the offset that the source had when the load ended; then the held back expiries are settled.
      const reached = () =>
        !options.once || ((fence?.concluded(shard) ?? true) && (vanished?.settled ?? true));
      await applier.run((position) => position.offset >= goal && reached());
      if (!signal.aborted && applier.position.offset >= goal) {
        settled = true;
        const settling = { ...checkpoint, ...applier.position };
        await this.#persistently(() => this.#plan.settle(settling));
        if (!options.once) await applier.run();
      }
      await target.finish?.();
    } catch (error) {
      if (error instanceof HistoryForkedError) {
        await applier.finish();
        await target.finish?.();
        throw new StreamForkedError(applier.position);
      }
      if (!(error instanceof HistoryLostError)) throw error;
      const { offset } = applier.position;
      if (options.onResync === "stop") throw new ResyncRequiredError(feed.where, offset);
      logger.warn(
        { shard, offset, settled },
        "the source no longer has the history; starting a full synchronisation",
      );
      const position = applier.position;
      this.#checkpoint = { ...checkpoint, ...position, phase: "load" };
      const follows = feed instanceof PsyncFeed && fence === undefined ? feed.succeed() : undefined;
      return {
        feed: follows ?? (await this.#persistently(() => this.#fresh())),
        checkpoint: this.#checkpoint,
      };
    } finally {
      target.close();
      vanished?.close();
    }
    return undefined;
  }

  /** The current offset of the source. */
  #untilKnown(feed: Feed): Promise<number> {
    return this.#persistently(() => feed.end());
  }

  /** Repeats work that needs a connection until it succeeds or the task is closed. */
  async #persistently<T>(work: () => Promise<T>): Promise<T> {
    const { signal, logger } = this.#plan;
    const backoff = new Backoff({ baseMs: 50, maxMs: 1_000 });
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isPassing(error) || signal.aborted) throw error;
        logger.warn({ err: error }, "trying again");
        await sleep(backoff.next(), signal);
      }
    }
  }
}

/** Whether a file without a snapshot is read from its first byte. */
function isAnew({ live, replid }: Feed, { phase, replid: known }: Checkpoint): boolean {
  return !live && (phase !== "stream" || replid !== known);
}

function noteTo(counters: Counters, { replid, offset, db }: Position): void {
  counters.replid = replid;
  counters.offset = offset;
  counters.db = db;
}

/** What follows a stream whose history was lost. */
interface Next {
  readonly feed: Feed;
  readonly checkpoint: Checkpoint;
}

/** Waits for the first bytes. The snapshot is made by then, and later changes are in the stream. */
async function begin(snapshot: Snapshot, signal: AbortSignal): Promise<Snapshot> {
  let first = await snapshot.read(signal);
  return {
    ...snapshot,
    read: async (aborted) => {
      const chunk = first ?? (await snapshot.read(aborted));
      first = undefined;
      return chunk;
    },
  };
}

/** A connection was lost while a snapshot was loaded. */
class LoadInterruptedError extends Error {
  constructor(cause: unknown) {
    super("a connection was lost during the full synchronisation", { cause });
  }
}

/** The source is another server, with another history. Everything before the fork is committed. */
class StreamForkedError extends Error {
  readonly position: Position;

  constructor(position: Position) {
    super("the history of the source forked");
    this.position = position;
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof ConnectionLostError || error instanceof ConnectFailedError;
}
