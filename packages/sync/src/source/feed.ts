/**
 * The interface of every source: an optional snapshot, then an optional stream of commands, both as bytes.
 * A feed reconnects by itself, as long as the source still has the history it needs.
 */
import type { Position } from "../checkpoint.ts";

/** A running source. */
export interface Feed {
  /** The source's address, for messages. */
  readonly where: string;
  /** The RDB that comes first; undefined if the feed continues at the requested position. */
  readonly snapshot: Snapshot | undefined;
  /** The replication id of the stream. It changes when a replica of the source is promoted. */
  readonly replid: string;
  /** Whether a stream follows the snapshot. */
  readonly live: boolean;
  /** The number of received bytes of the stream that have not been read. */
  readonly waiting: number;
  /** The last byte of the stream that was received. */
  readonly received: number;
  /** Bytes up to this one may have waited at the source while the connection was lost or stalled. */
  readonly behindUntil?: number;
  /** The next bytes of the stream; undefined at its end. Rejects with HistoryLostError if it cannot be continued. */
  read(signal?: AbortSignal): Promise<Buffer | undefined>;
  /** The next bytes of the stream, if they are in memory. */
  readNow(): Buffer | undefined;
  /** Acknowledges to the source what the target has. `now` sends it without waiting for the next second. */
  acknowledge(applied: number, now?: boolean): void;
  /** The offset that the source has written so far. */
  end(): Promise<number>;
  close(): Promise<void>;
}

/** The RDB of a full synchronisation. */
export interface Snapshot extends Position {
  /** Its size, if known. */
  readonly bytes: number | undefined;
  /** The next bytes; undefined at the end. */
  read(signal?: AbortSignal): Promise<Buffer | undefined>;
}
