/**
 * Keeps the shards of a source in order while slots move between its masters.
 *
 *   giving master    ... INCR k    DEL k              the DEL is what MIGRATE leaves behind
 *   taking master    RESTORE-ASKING k    INCR k ...
 *
 * The streams of two masters know nothing of each other, and a DEL that is applied after the RESTORE would take
 * the key. Three rules put them in order:
 *
 * - A RESTORE-ASKING waits until no other master has the key, and until their streams are applied up to there.
 * - A snapshot is asked for when no slot is being moved to its master and the streams of the others are applied
 *   up to that moment. If slots came before it was made, it is asked for again, behind all other shards.
 * - A master that no shard follows, or two shards that are one master now, end the run of all shards with
 *   SlotsMovedError; the task then begins again with the masters there are.
 */
import { AbortedError, ConnectFailedError, ConnectionLostError } from "@ropeway/core";
import { showAddress, sleep } from "@ropeway/core/internal";
import type { Unit } from "../apply/unit-reader.ts";
import { ErrorReply } from "../resp/reply-reader.ts";
import { RespWriter } from "../resp/writer.ts";
import type { ShardLocator } from "../source/shard-locator.ts";
import type { Connection } from "../wire/connection.ts";

/** One shard, as the others see it. */
export interface FencedShard {
  readonly locator: ShardLocator;
  /** The last byte of its stream that is applied; undefined while it has no stream. */
  applied(): number | undefined;
}

/** What a fence needs. */
export interface SlotFenceOptions {
  readonly shards: readonly FencedShard[];
  readonly signal: AbortSignal;
  /** How long shards may wait for each other. */
  readonly patienceMs: number;
  onWait(reason: string): void;
}

const POLL_MS = 10;
const LOOK_MS = 1_000;
const RESTORE_ASKING = "RESTORE-ASKING";

/** The masters of the source are not the ones that the task follows. */
export class SlotsMovedError extends Error {
  /** Whether the order of the streams is lost, so that everything must be copied again. */
  readonly lost: boolean;

  constructor(message: string, lost: boolean) {
    super(message);
    this.lost = lost;
  }
}

/** Keeps the streams of a source's masters in order while slots move between them. */
export class SlotFence {
  readonly #options: SlotFenceOptions;
  readonly #connections = new Map<number, Connection>();
  /** The slots that a shard had when its snapshot was asked for. */
  readonly #had = new Map<number, ReadonlySet<number>>();
  /** Shards that load behind all others. */
  readonly #behind = new Set<number>();
  #closed = false;

  constructor(options: SlotFenceOptions) {
    this.#options = options;
  }

  /** Waits before a unit that brings keys of another master; undefined for all other units. */
  gate(shard: number, unit: Unit): (() => Promise<void>) | undefined {
    const keys = unit.commands.flatMap(({ argv }) =>
      argv[0]?.length === RESTORE_ASKING.length &&
      argv[0].toString("latin1").toUpperCase() === RESTORE_ASKING
        ? [argv[1] as Buffer]
        : [],
    );
    if (keys.length === 0) return undefined;
    return () => this.#others(shard, (other) => this.#gone(other, keys));
  }

  /**
   * Waits until a snapshot of the shard can be asked for. If keys came to the shard that another one may have in
   * its snapshot or stream, that one comes first.
   */
  async ready(shard: number): Promise<void> {
    const { locator } = this.#shard(shard);
    const had = this.#had.get(shard);
    let came = false;
    await this.#until("a slot is being moved to a master of the source", async () => {
      const { slots, importing } = await locator.holdings();
      came ||= importing.length > 0 || slots.some((slot) => had?.has(slot) === false);
      this.#had.set(shard, new Set(slots));
      return importing.length === 0;
    });
    if (came) this.#behind.add(shard);
    try {
      await this.#others(shard, async (other) =>
        came || this.#shard(other).applied() !== undefined ? this.#offset(other, []) : undefined,
      );
    } finally {
      this.#behind.delete(shard);
    }
  }

  /** Whether keys may have come to the shard before its snapshot was made; ask when the snapshot has begun. */
  async gained(shard: number): Promise<boolean> {
    const had = this.#had.get(shard);
    const { slots, importing } = await this.#shard(shard).locator.holdings();
    return importing.length > 0 || slots.some((slot) => had?.has(slot) === false);
  }

  /** Rejects with SlotsMovedError when the masters of the source are others than the shards; ends with the signal. */
  async watch(): Promise<void> {
    const { shards, signal } = this.#options;
    let wrong = 0;
    while (!signal.aborted) {
      await sleep(LOOK_MS, signal).catch(() => {});
      if (signal.aborted) return;
      try {
        const followed = await Promise.all(shards.map(({ locator }) => locator.address()));
        const names = new Set(followed.map(showAddress));
        const masters = await (shards[0] as FencedShard).locator.masters();
        const same = names.size === shards.length && masters.every((name) => names.has(name));
        wrong = same ? 0 : wrong + 1;
      } catch {
        wrong = 0; // nobody can say at the moment
      }
      // Twice: two maps that were read one after the other may differ once.
      if (wrong >= 2) throw new SlotsMovedError("the source has other masters than before", false);
    }
  }

  close(): void {
    this.#closed = true;
    for (const connection of this.#connections.values()) connection.destroy();
    this.#connections.clear();
  }

  #shard(index: number): FencedShard {
    return this.#options.shards[index] as FencedShard;
  }

  /** Waits until the streams of all other shards are applied up to the offset that `goal` gives. */
  async #others(
    shard: number,
    goal: (other: number) => Promise<number | undefined>,
  ): Promise<void> {
    const others = this.#options.shards.map((_, index) => index).filter((each) => each !== shard);
    await Promise.all(others.map((other) => this.#after(shard, other, goal)));
  }

  async #after(
    shard: number,
    other: number,
    goal: (other: number) => Promise<number | undefined>,
  ): Promise<void> {
    const offset = await goal(other);
    if (offset === undefined) return;
    let since = performance.now();
    await this.#until("slots of the source move, and one shard waits for another", async () => {
      const applied = this.#shard(other).applied();
      // A load takes as long as it takes; only a stream that does not move is a reason to give up.
      if (applied === undefined) since = performance.now();
      const both = this.#behind.has(shard) && this.#behind.has(other);
      if (both || performance.now() - since > this.#options.patienceMs) {
        throw new SlotsMovedError("shards of the source wait for each other", true);
      }
      return (applied ?? -1) >= offset;
    });
  }

  /** The offset at which a shard has none of the keys any more. */
  async #gone(shard: number, keys: readonly Buffer[]): Promise<number> {
    let offset: number | undefined;
    const started = performance.now();
    await this.#until("a key that moves is still at its old master", async () => {
      offset = await this.#offset(shard, keys);
      if (performance.now() - started > this.#options.patienceMs) {
        throw new SlotsMovedError("a key is at two masters of the source", true);
      }
      return offset !== undefined;
    });
    return offset as number;
  }

  /** How far the source is; undefined if it still has one of the keys. */
  async #offset(shard: number, keys: readonly Buffer[]): Promise<number | undefined> {
    const writer = new RespWriter();
    for (const key of keys) writer.command(["EXISTS", key]);
    writer.command(["INFO", "replication"]);
    const connection = await this.#connection(shard);
    const replies = await connection.exchange(writer.take(), keys.length + 1);
    // A master that does not have the key says so with ASK or MOVED.
    const here = replies
      .slice(0, -1)
      .some((reply) => !(reply instanceof ErrorReply) && reply !== 0);
    if (here) return undefined;
    const offset = /^master_repl_offset:(\d+)/m.exec(String(replies.at(-1)))?.[1];
    return offset === undefined ? undefined : Number(offset);
  }

  async #connection(shard: number): Promise<Connection> {
    const known = this.#connections.get(shard);
    if (known?.alive) return known;
    const opened = await this.#shard(shard).locator.connect();
    // Another wait may have connected meanwhile, or the fence may be closed.
    const other = this.#connections.get(shard);
    if (this.#closed || other?.alive) opened.destroy();
    if (this.#closed) throw new ConnectionLostError(opened.where, "the task is closing");
    if (other?.alive) return other;
    this.#connections.set(shard, opened);
    return opened;
  }

  /** Asks until the answer is yes. */
  async #until(reason: string, question: () => Promise<boolean>): Promise<void> {
    const { signal, onWait } = this.#options;
    for (let asked = 1; ; asked++) {
      if (signal.aborted) throw new AbortedError("following the source", signal.reason);
      const yes = await question().catch((error) => {
        if (error instanceof ConnectionLostError || error instanceof ConnectFailedError)
          return false;
        throw error;
      });
      if (yes) return;
      if (asked === 100) onWait(reason);
      await sleep(asked < 100 ? POLL_MS : 10 * POLL_MS, signal);
    }
  }
}
