/** The interface of every target. */
import type { StreamNote, StreamTarget } from "../apply/applier.ts";
import type { Checkpoint } from "../checkpoint.ts";
import type { Mapping } from "../mapping.ts";
import type { Counters } from "../progress.ts";
import type { Reply } from "../resp/reply-reader.ts";
import type { Argument } from "../resp/writer.ts";
import type { Snapshot } from "../source/feed.ts";
import type { Abilities } from "./abilities.ts";
import type { LoadWriterOptions, SnapshotWriter } from "./load-writer.ts";
import type { RecordKind } from "./records.ts";
import type { Transaction } from "./transaction.ts";

/** Copies a snapshot without commands. */
export type SnapshotCopy = (
  shard: number,
  plan: {
    readonly snapshot: Snapshot;
    readonly mapping: Mapping;
    readonly counters: Counters;
    readonly signal: AbortSignal;
  },
) => Promise<void>;

/** A target. */
export interface Sink {
  /** Whether expired keys are written too: a file has no clock. */
  readonly keepsExpired?: boolean;
  /** How the target copies a snapshot, if not as commands. */
  readonly copy?: SnapshotCopy | undefined;
  /** The target's address for messages, without passwords. */
  readonly where: string;
  /** Finds the abilities of the target. */
  probe(): Promise<Abilities>;
  /**
   * Increments the epoch, so that earlier runs can no longer write. Returns the new checkpoint. If the caller
   * chose the epoch, throws LeaseLostError if a later run has claimed the task.
   */
  claim(shard: number, epoch?: number): Promise<Checkpoint>;
  /** Moves the checkpoint to another phase. Returns it. Fails if a newer run has claimed it. */
  enter(shard: number, checkpoint: Checkpoint): Promise<Checkpoint>;
  /** Writes the checkpoint without data; it may move backwards. Fails if a newer run has claimed it. */
  move(shard: number, checkpoint: Checkpoint): Promise<void>;
  /** Writes the keys of a snapshot. Close it after use. */
  loader<N extends KeyNote>(
    shard: number,
    epoch: number,
    hooks: Pick<LoadWriterOptions<N>, "onFailure" | "noteOf" | "complete">,
  ): Promise<{ writer: SnapshotWriter<N>; close(): void }>;
  /** Applies batches of the stream. Close it after use. */
  stream(shard: number, checkpoint: Checkpoint): StreamTarget & { close(): void };
  /** Applies a batch outside the stream, at least once. */
  commit(shard: number, checkpoint: Checkpoint, batch: Transaction<StreamNote>): Promise<void>;
  /** Reads keys. Close it after use. */
  reader(): Promise<TargetReader>;
  /** Stores records, up to a maximum number, also while the run ends. A failure is only logged. */
  record(kind: RecordKind, entries: readonly object[]): Promise<void>;
  close(): void;
}

/** The common fields of the notes of a snapshot. */
export interface KeyNote {
  readonly key: Buffer;
  readonly db: number;
}

/** A query about a key. */
export interface KeyQuery {
  readonly db: number;
  readonly key: Buffer;
  readonly argv: readonly Argument[];
}

/** Reads from a target of any topology. */
export interface TargetReader {
  /** The replies, in order. */
  query(queries: readonly KeyQuery[]): Promise<Reply[]>;
  /** The target's clock, in ms. */
  now(): Promise<number>;
  /** All keys, page by page. */
  pages(count: number): AsyncGenerator<{ readonly db: number; readonly keys: readonly Buffer[] }>;
  close(): void;
}
