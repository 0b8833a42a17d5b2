/**
 * The interface of every source: an optional snapshot, then an optional stream of commands, both as bytes.
 * A feed survives lost connections by itself, as long as the source still has the history it needs.
 */
import type { Position } from "../checkpoint.ts";

/** A running source. */
export interface Feed {
  /** The place, for messages. */
  readonly where: string;
  /** The RDB that comes first; undefined if the feed continues at the position that was asked for. */
  readonly snapshot: Snapshot | undefined;
  /** The replication id of the stream; it changes when a replica of the source was promoted. */
  readonly replid: string;
  /** Whether a stream follows the snapshot. */
  readonly live: boolean;
  /** Bytes of the stream that wait to be read. */
  readonly waiting: number;
  /** The last byte of the stream that was received. */
  readonly received: number;
  /** Bytes up to this one may have waited at the source while the connection was lost or stood still. */
  readonly behindUntil?: number;
  /** The next bytes of the stream; undefined at its end. Rejects with HistoryLostError if it cannot be continued. */
  read(signal?: AbortSignal): Promise<Buffer | undefined>;
  /** The next bytes of the stream, if they are in memory. */
  readNow(): Buffer | undefined;
  /** Acknowledges to the source what the target has. `now`: without waiting for the next second. */
  acknowledge(applied: number, now?: boolean): void;
  /** The last byte that the source has written so far. */
  end(): Promise<number>;
  close(): Promise<void>;
}

/** The RDB of a full synchronisation. */
export interface Snapshot extends Position {
  /** Its size, if it is known. */
  readonly bytes: number | undefined;
  /** The next bytes; undefined at the end. */
  read(signal?: AbortSignal): Promise<Buffer | undefined>;
}
