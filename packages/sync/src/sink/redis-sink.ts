/**
 * Writes to one server: a standalone one, or the master that Sentinels report. See fenced-connection.ts for
 * why two runs of a task cannot both write, and lane.ts for why nothing is applied twice.
 */
import { randomBytes } from "node:crypto";
import type { Endpoint, Logger } from "@ropeway/core";
import type { StreamNote, StreamTarget } from "../apply/applier.ts";
import { type Checkpoint, checkpointFields } from "../checkpoint.ts";
import { TargetRefusedError } from "../errors.ts";
import { checkpointKey, isOwnKey, laneKey } from "../keys.ts";
import type { Connection } from "../wire/connection.ts";
import { Locator } from "../wire/locator.ts";
import { type Abilities, probe } from "./abilities.ts";
import { claimCheckpoint } from "./claim.ts";
import { type Confirmed, Lane } from "./lane.ts";
import { LoadWriter, type LoadWriterOptions } from "./load-writer.ts";
import { type RecordKind, storeRecords } from "./records.ts";
import { RedisReader } from "./redis-reader.ts";
import type { KeyNote, Sink, TargetReader } from "./sink.ts";
import { Transaction } from "./transaction.ts";

/** The options of a target that is one server. */
export interface RedisSinkOptions {
  readonly endpoint: Endpoint;
  readonly task: string;
  readonly lanes: number;
  readonly batchBytes: number;
  readonly batchCommands: number;
  readonly stallMs: number;
  readonly connectTimeoutMs: number;
  readonly signal: AbortSignal;
  /** See wire/off-limits.ts. */
  readonly keepOff?: readonly string[] | undefined;
  readonly logger: Logger;
  onStall(reason: string | undefined): void;
  onRoundTrip(ms: number): void;
  admit(commands: number, bytes: number): Promise<void> | undefined;
  /** Called for each command of a shard's stream that failed. */
  onFailure(shard: number, note: StreamNote, reply: string): void;
  /** Called for the commands of a batch that was applied, but whose replies were lost. */
  onLost(shard: number, notes: readonly (StreamNote | undefined)[]): void;
  /** Called for each command of a shard's stream whose reply was 0. */
  onZero(shard: number, note: StreamNote): void;
}

/** The maximum number of stored records of discarded writes, and of big keys. */
/** An earlier run may have had more lanes than this one. */
export const MOST_LANES = 64;
/** A target with more keys than this is not empty; its keys are not examined one by one. */
const FEW_KEYS = 1_000;

/** A target that is one server. */
export class RedisSink implements Sink {
  readonly #options: RedisSinkOptions;
  readonly #locator: Locator;
  /** The marks that the target has confirmed, by the key of the mark. */
  readonly #confirmed = new Map<string, Confirmed>();

  constructor(options: RedisSinkOptions) {
    this.#options = options;
    const { endpoint, connectTimeoutMs, keepOff, task } = options;
    const name = `ropeway-sync:${task}`;
    this.#locator = new Locator(endpoint, { connectTimeoutMs, name, keepOff, master: true });
  }

  /** The target's address for messages, without passwords. */
  get where(): string {
    return this.#locator.where;
  }

  /** A connection for reading and probing, in database 0. */
  connect(): Promise<Connection> {
    return this.#locator.connect(this.#options.signal);
  }

  async claim(shard: number, epoch?: number): Promise<Checkpoint> {
    const { task } = this.#options;
    await using connection = await this.connect();
    const key = checkpointKey(task, shard);
    const claimed = await claimCheckpoint({
      ...{ connection, task, key, epoch },
      isEmpty: () => isEmpty(connection),
    });
    this.#confirmed.set(key, { mark: claimed.mark });
    this.#forgetLanes(shard);
    return claimed;
  }

  /** Moves the checkpoint to another phase. Throws LeaseLostError if a newer run has claimed it. */
  async enter(shard: number, checkpoint: Checkpoint): Promise<Checkpoint> {
    const { task } = this.#options;
    const lane = this.#lane(shard, checkpoint.epoch);
    const transaction = new Transaction<StreamNote>();
    if (checkpoint.phase !== "load") {
      const lanes = Array.from({ length: MOST_LANES }, (_, n) => laneKey(task, shard, n));
      const argv = ["DEL", ...lanes].map((word) => Buffer.from(word));
      transaction.command(argv, { argv, db: 0 });
    }
    try {
      const mark = singleMark(checkpoint);
      await this.#commit(lane, { shard, batch: transaction, checkpoint, mark });
      this.#forgetLanes(shard);
      return checkpoint;
    } finally {
      lane.close();
    }
  }

  /** Writes the keys of a snapshot. Close it after use. */
  async loader<N extends KeyNote>(
    shard: number,
    epoch: number,
    hooks: Pick<LoadWriterOptions<N>, "onFailure" | "noteOf" | "complete">,
  ): Promise<{ writer: LoadWriter<N>; close(): void }> {
    const { task, batchBytes, batchCommands, admit, logger } = this.#options;
    const lanes = Array.from({ length: this.#options.lanes }, (_, lane) =>
      this.#lane(shard, epoch, laneKey(task, shard, lane)),
    );
    const close = () => {
      for (const lane of lanes) lane.close();
    };
    try {
      for (const lane of lanes) await lane.open();
    } catch (error) {
      close();
      throw error;
    }
    const { where } = this;
    const onLost = () =>
      logger.warn({ shard }, "replies of the target were lost; run sync verify --repair");
    const options = { where, lanes, epoch, batchBytes, batchCommands, admit, onLost, ...hooks };
    return { writer: new LoadWriter<N>(options), close };
  }

  /** Applies batches of the stream. Close it after use. */
  stream(shard: number, checkpoint: Checkpoint): StreamTarget & { close(): void } {
    const lane = this.#lane(shard, checkpoint.epoch);
    return {
      apply: async (batch, position) => {
        const mark = String(position.offset);
        const moved = { ...checkpoint, ...position };
        await this.#commit(lane, { shard, batch, checkpoint: moved, mark });
      },
      close: () => lane.close(),
    };
  }

  async commit(
    shard: number,
    checkpoint: Checkpoint,
    batch: Transaction<StreamNote>,
  ): Promise<void> {
    const lane = this.#lane(shard, checkpoint.epoch);
    try {
      await this.#commit(lane, { shard, batch, checkpoint, mark: singleMark(checkpoint) });
    } finally {
      lane.close();
    }
  }

  move(shard: number, checkpoint: Checkpoint): Promise<void> {
    return this.commit(shard, checkpoint, new Transaction());
  }

  async reader(): Promise<TargetReader> {
    return new RedisReader(await this.connect());
  }

  async probe(): Promise<Abilities> {
    await using connection = await this.connect();
    return await probe(connection, this.#options.task);
  }

  close(): void {} // every part closes its own connections

  record(kind: RecordKind, entries: readonly object[]): Promise<void> {
    const { task, logger } = this.#options;
    const connect = () => this.#locator.connect();
    return storeRecords({ task, kind, entries, logger, connect });
  }

  /** Applies a batch. Commands that the target refuses are reported, and the others are applied without them. */
  async #commit(lane: Lane, commit: Commit): Promise<void> {
    const { shard, batch, checkpoint, mark } = commit;
    const fields = checkpointFields(checkpoint, mark);
    const outcome = await lane.commit(batch, mark, fields);
    this.#options.onStall(undefined);
    if (outcome.lost) this.#options.onLost(shard, batch.notes);
    const failed = new Set<number>();
    for (const { index, reply } of outcome.errors) {
      const note = batch.notes[index];
      if (note === undefined) continue;
      failed.add(index);
      this.#options.onFailure(shard, note, reply);
    }
    for (const index of outcome.zeros) {
      const note = batch.notes[index];
      if (note !== undefined && note.own !== true) this.#options.onZero(shard, note);
    }
    if (outcome.applied) return;
    if (failed.size === 0) throw new TargetRefusedError(this.where, outcome.reply, 0);
    await this.#commit(lane, { ...commit, batch: without(batch, failed) });
  }

  /** Each load starts with new marks of the lanes. */
  #forgetLanes(shard: number): void {
    for (let n = 0; n < MOST_LANES; n++)
      this.#confirmed.delete(laneKey(this.#options.task, shard, n));
  }

  #lane(shard: number, epoch: number, markKey?: string): Lane {
    const { task, stallMs, signal, onStall, onRoundTrip } = this.#options;
    const checkpoint = checkpointKey(task, shard);
    const key = markKey ?? checkpoint;
    const confirmed = this.#confirmed.get(key) ?? { mark: undefined };
    this.#confirmed.set(key, confirmed);
    return new Lane({
      confirmed,
      fence: {
        task,
        epoch,
        checkpointKey: checkpoint,
        markKey: key,
        markField: markKey === undefined ? "mark" : "batch",
      },
      connect: () => this.connect(),
      stallMs,
      signal,
      onStall,
      onRoundTrip,
    });
  }
}

/** A batch with the checkpoint that it moves. */
interface Commit {
  readonly shard: number;
  readonly batch: Transaction<StreamNote>;
  readonly checkpoint: Checkpoint;
  readonly mark: string;
}

/** Identifies a transaction that does not move the offset, so that it differs from the previous one. */
export function singleMark({ offset }: Checkpoint): string {
  return `${offset}-${randomBytes(6).toString("hex")}`;
}

function without(
  batch: Transaction<StreamNote>,
  failed: ReadonlySet<number>,
): Transaction<StreamNote> {
  const rest = new Transaction<StreamNote>();
  batch.notes.forEach((note, index) => {
    if (note === undefined || failed.has(index)) return;
    rest.select(note.db);
    rest.command(note.argv, note);
  });
  return rest;
}

/** Whether a server holds only keys of tasks. */
async function isEmpty(connection: Connection): Promise<boolean> {
  const info = String(await connection.call("INFO", "keyspace"));
  const dbs = [...info.matchAll(/^db(\d+):keys=(\d+)/gm)].map(([, db, keys]) => ({
    db: Number(db),
    keys: Number(keys),
  }));
  if (dbs.some(({ db, keys }) => db !== 0 || keys > FEW_KEYS)) return false;
  if (dbs.length === 0) return true;
  let cursor = "0";
  do {
    const [next, keys] = await connection.call<readonly [Buffer, readonly Buffer[]]>(
      "SCAN",
      cursor,
      "COUNT",
      FEW_KEYS,
    );
    if (!keys.every(isOwnKey)) return false;
    cursor = String(next);
  } while (cursor !== "0");
  return true;
}
