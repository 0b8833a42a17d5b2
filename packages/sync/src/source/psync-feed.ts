/**
 * The feed of a live server: a replica's connection, a spool for the snapshot and a spool for the stream.
 *
 *              attach
 *                |  +FULLRESYNC                    +CONTINUE
 *                v                                     |
 *          [ snapshot ] --complete--> [ stream ] <-----'
 *               |                        |   ^
 *     link lost: the feed fails          |   | +CONTINUE, perhaps with a new replication id
 *     with the link's error              v   |
 *                                     [ link lost: PSYNC after the last byte received ]
 *                                        |
 *                                        |-- a promoted replica lacks the last bytes: HistoryForkedError
 *                                        '-- +FULLRESYNC: HistoryLostError; succeed() returns the next feed
 *
 * The socket is read at wire speed into the spools. Offsets are counted here, after stray newlines
 * were removed, so that a connection that was lost inside a command continues inside that command.
 */
import { AbortedError, type Address, ConnectFailedError, ConnectionLostError } from "@ropeway/core";
import { Backoff, showAddress, sleep } from "@ropeway/core/internal";
import type { Position } from "../checkpoint.ts";
import { HistoryLostError, SourceNotReadyError } from "../errors.ts";
import { ReplicaLink } from "../psync/replica-link.ts";
import { StreamFramer } from "../psync/stream-framer.ts";
import { Spool, type SpoolOptions } from "../spool/spool.ts";
import type { Connection, ConnectionPlan } from "../wire/connection.ts";
import type { Feed, Snapshot } from "./feed.ts";
import { forkBefore, HistoryForkedError } from "./history-fork.ts";

/** The server to follow: a Locator, or the shard of a cluster. */
export interface ReplicaSource {
  readonly where: string;
  /** Whether to check regularly for another server: a deposed master may keep replying for long. */
  readonly mayMove?: boolean;
  /** The server to follow at the moment. */
  address(signal?: AbortSignal): Promise<Address>;
  plan(address: Address): ConnectionPlan;
  connect(signal?: AbortSignal): Promise<Connection>;
}

/** How a source is followed. */
export interface PsyncOptions {
  readonly source: ReplicaSource;
  readonly spool: SpoolOptions;
  readonly connectTimeoutMs: number;
  readonly silenceMs: number;
  readonly signal: AbortSignal;
  /** Request a snapshot without keys, because only the stream is copied. */
  readonly withoutKeys?: boolean;
  /** Called with each fault that the feed repairs by itself. */
  onFault(error: unknown): void;
  /** Called when the source is now another server. */
  onFailover(from: string, to: string): void;
}

const ACK_MS = 1_000;
const LOOK_MS = 1_000;
const STALL_MS = 1_000;

/** Reads a snapshot and the stream from a live server, as its replica. */
export class PsyncFeed implements Feed {
  readonly where: string;
  readonly live = true;
  readonly snapshot: Snapshot | undefined;
  readonly #options: PsyncOptions;
  readonly #stream: Spool;
  readonly #snapshotSpool: Spool | undefined;
  readonly #framer = new StreamFramer();
  readonly #acks: NodeJS.Timeout;
  readonly #closing = new AbortController();
  readonly #pumping: Promise<void>;
  #link: ReplicaLink;
  #replid: string;
  #received: number;
  #applied = 0;
  #loading: boolean;
  #successor: ReplicaLink | undefined;
  readonly #looks: NodeJS.Timeout | undefined;
  #looking = false;
  /** The last byte that the reader was given. */
  #given: number;
  /** Bytes after this one belong to a history that the source has left. */
  #fork = Number.POSITIVE_INFINITY;
  #behindUntil = 0;
  /** When the source last sent bytes. */
  #heardAt = performance.now();
  /** Bytes received before this time may have been delayed. */
  #stalledUntil = 0;

  private constructor(options: PsyncOptions, link: ReplicaLink, after: Position | undefined) {
    this.#options = options;
    this.#link = link;
    this.where = options.source.where;
    const { reply } = link;
    this.#replid = reply.replid;
    this.#received = reply.kind === "full" ? reply.offset : (after?.offset ?? 0);
    this.#given = this.#received;
    this.#applied = reply.kind === "full" ? 0 : this.#received;
    this.#loading = reply.kind === "full";
    this.#stream = new Spool(options.spool);
    if (reply.kind === "full") {
      const spool = new Spool(options.spool);
      this.#snapshotSpool = spool;
      this.snapshot = {
        replid: reply.replid,
        offset: reply.offset,
        db: 0,
        get bytes() {
          return link.snapshotBytes;
        },
        read: (signal) => spool.read(signal),
      };
    }
    this.#acks = setInterval(() => this.#ack(), ACK_MS);
    if (options.source.mayMove) this.#looks = setInterval(() => void this.#look(), LOOK_MS);
    this.#pumping = this.#pump();
  }

  /** Connects; continues after the position if the source can, else begins a full synchronisation. */
  static async attach(options: PsyncOptions, after?: Position): Promise<PsyncFeed> {
    const backoff = new Backoff({ baseMs: 100, maxMs: 1_000 });
    for (;;) {
      try {
        return new PsyncFeed(options, await openLink(options, after), after);
      } catch (error) {
        if (!(error instanceof SourceNotReadyError)) throw error;
        options.onFault(error);
        await sleep(backoff.next(), options.signal);
      }
    }
  }

  /** After HistoryLostError, returns the feed of the full synchronisation that the source has begun. */
  succeed(): PsyncFeed | undefined {
    const link = this.#successor;
    this.#successor = undefined;
    return link === undefined ? undefined : new PsyncFeed(this.#options, link, undefined);
  }

  get replid(): string {
    return this.#replid;
  }

  get received(): number {
    return this.#received;
  }

  get behindUntil(): number {
    return this.#behindUntil;
  }

  get waiting(): number {
    return this.#stream.bytes;
  }

  async read(signal?: AbortSignal): Promise<Buffer | undefined> {
    return this.#give(await this.#stream.read(signal));
  }

  readNow(): Buffer | undefined {
    return this.#given < this.#fork ? this.#give(this.#stream.readNow()) : undefined;
  }

  #give(chunk: Buffer | undefined): Buffer | undefined {
    if (chunk === undefined) return undefined;
    const shared = chunk.subarray(0, Math.max(0, this.#fork - this.#given));
    if (shared.length === 0) throw new HistoryForkedError(this.#fork);
    this.#given += shared.length;
    return shared;
  }

  acknowledge(applied: number, now: boolean = false): void {
    this.#applied = applied;
    if (now) this.#ack();
  }

  async end(): Promise<number> {
    await using connection = await this.#options.source.connect(this.#options.signal);
    const info = String(await connection.call("INFO", "replication"));
    return Number(/^master_repl_offset:(\d+)/m.exec(info)?.[1] ?? this.#received);
  }

  async close(): Promise<void> {
    clearInterval(this.#acks);
    clearInterval(this.#looks);
    this.#closing.abort();
    this.#link.close();
    this.#successor?.close();
    await this.#snapshotSpool?.close();
    await this.#stream.close();
    await this.#pumping;
  }

  #ack(): void {
    if (this.#loading) this.#link.keepAlive();
    else this.#link.acknowledge(this.#applied);
  }

  /** Disconnects from a server that is no longer the one to follow. */
  async #look(): Promise<void> {
    if (this.#looking || this.#loading) return;
    this.#looking = true;
    const link = this.#link;
    try {
      const address = await this.#options.source.address(this.#closing.signal);
      if (showAddress(address) !== link.where) link.close();
    } catch {
      // The lookup failed; the link itself reports when it is lost.
    } finally {
      this.#looking = false;
    }
  }

  /** Moves bytes from the links to the spools until the feed is closed or fails. Never rejects. */
  async #pump(): Promise<void> {
    try {
      if (this.#snapshotSpool !== undefined) {
        for await (const chunk of this.#link.snapshot()) await this.#snapshotSpool.append(chunk);
        this.#loading = false;
        this.#snapshotSpool.end();
      }
    } catch (error) {
      this.#snapshotSpool?.end(error);
      this.#stream.end(error);
      return;
    }
    while (!this.#closing.signal.aborted) {
      try {
        await this.#pumpStream();
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) {
          this.#stream.end(error);
          return;
        }
        if (this.#closing.signal.aborted || this.#options.signal.aborted) {
          this.#stream.end(error);
          return;
        }
        this.#options.onFault(error);
        if (!(await this.#reconnect())) return;
      }
    }
  }

  async #pumpStream(): Promise<void> {
    for await (const chunk of this.#link.stream()) {
      const clean = this.#framer.clean(chunk);
      this.#noteStall(clean.length);
      await this.#stream.append(clean);
      this.#received += clean.length;
    }
  }

  /**
   * After a silence, the age of the bytes is unknown: the source had nothing to send, or its connection
   * stalled. Stalled bytes arrive much faster than they were written.
   */
  #noteStall(bytes: number): void {
    const now = performance.now();
    const silentMs = now - this.#heardAt;
    if (silentMs > STALL_MS) this.#stalledUntil = now + silentMs / 10;
    this.#heardAt = now;
    if (now < this.#stalledUntil) {
      this.#behindUntil = Math.max(this.#behindUntil, this.#received + bytes);
    }
  }

  /** Opens the next link. Returns false if the feed ends here. */
  async #reconnect(): Promise<boolean> {
    const backoff = new Backoff({ baseMs: 50, maxMs: 1_000 });
    const after = { replid: this.#replid, offset: this.#received, db: 0 };
    const before = this.#link.where;
    while (!this.#closing.signal.aborted) {
      try {
        const fork = await this.#forkBefore(after, before);
        if (fork !== undefined) {
          this.#fork = fork;
          this.#stream.end(new HistoryForkedError(fork));
          return false;
        }
        this.#behindUntil = await this.end();
        const link = await openLink(this.#options, after);
        if (link.reply.kind === "full") {
          this.#successor = link;
          this.#stream.end(new HistoryLostError(this.where, this.#received));
          return false;
        }
        this.#link = link;
        this.#replid = link.reply.replid;
        link.acknowledge(this.#applied);
        if (link.where !== before) this.#options.onFailover(before, link.where);
        return true;
      } catch (error) {
        if (!isPassing(error)) {
          this.#stream.end(error);
          return false;
        }
        this.#options.onFault(error);
        await sleep(backoff.next(), this.#closing.signal).catch(() => {});
      }
    }
    return false;
  }

  async #forkBefore(after: Position, server: string): Promise<number | undefined> {
    const { source, onFailover } = this.#options;
    await using connection = await source.connect(this.#closing.signal);
    const fork = await forkBefore(connection, after);
    if (fork !== undefined) onFailover(server, connection.where);
    return fork;
  }
}

async function openLink(options: PsyncOptions, after: Position | undefined): Promise<ReplicaLink> {
  const { source, connectTimeoutMs, silenceMs, signal, withoutKeys = false } = options;
  if (signal.aborted) throw new AbortedError("following the source", signal.reason);
  const address = await source.address(signal);
  const { username, password, tls, keepOff } = source.plan(address);
  const plan = { address, username, password, tls, keepOff, connectTimeoutMs, silenceMs, signal };
  return ReplicaLink.open({ ...plan, withoutKeys, after });
}

/** Whether the same attempt may succeed a moment later. */
function isPassing(error: unknown): boolean {
  return (
    error instanceof ConnectFailedError ||
    error instanceof ConnectionLostError ||
    error instanceof SourceNotReadyError
  );
}
