/**
 * Keeps the shards of a source in order while slots move between its masters.
 *
 * - Commands of moving slots are left out, and their keys are read again: moving-slots.ts decides which, and when. The
 *   fence queries the masters for it, and reads the keys.
 * - A snapshot is requested when no slot is being moved to its master and the streams of the other shards are applied
 *   up to that moment. If slots arrived before it was made, it is requested again, after all other shards.
 * - If a master has no shard, or two shards have the same master, the run of all shards ends with
 *   SlotsMovedError; the task then begins again with the current masters.
 */
import { AbortedError, ConnectFailedError, ConnectionLostError } from "@ropeway/core";
import { showAddress, sleep } from "@ropeway/core/internal";
import type { StreamMoves, StreamNote } from "../apply/applier.ts";
import type { Reply } from "../resp/reply-reader.ts";
import { type Argument, RespWriter } from "../resp/writer.ts";
import type { Transaction } from "../sink/transaction.ts";
import type { ShardLocator } from "../source/shard-locator.ts";
import type { Connection } from "../wire/connection.ts";
import { type Holdings, holdingsOf } from "./holdings.ts";
import type { MovedSets } from "./moved-sets.ts";
import { MovingSlots } from "./moving-slots.ts";
import { offsetOf, readAnew } from "./read-anew.ts";

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
  /** How long a snapshot may wait for a stream that does not advance. */
  readonly patienceMs: number;
  /** Stores the keys that are to be read again; undefined for a target that cannot store them. */
  readonly sets: MovedSets | undefined;
  onWait(reason: string): void;
}

const POLL_MS = 10;
const LOOK_MS = 1_000;
/** WAIT with more replicas than any master has: the master sends GETACK to all of them, which advances the stream. */
export const NUDGE: readonly Argument[] = ["WAIT", "1000", "1"];

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
  readonly #slots: MovingSlots;
  /** Shards whose keys must be read before their next unit. */
  readonly #due = new Set<number>();
  /** Shards that have reached the goal of the task. */
  readonly #arrived = new Set<number>();
  /** Shards whose sets are deleted once the set of the first shard has their keys. */
  #orphans: readonly number[] = [];
  #settling = false;
  #failure: unknown;
  /** The slots that a shard had when its snapshot was requested. */
  readonly #had = new Map<number, ReadonlySet<number>>();
  /** Shards that got slots, so that they load after all others. */
  readonly #came = new Set<number>();
  /** Those of them that are waiting for the others. */
  readonly #behind = new Set<number>();
  #closed = false;

  constructor(options: SlotFenceOptions) {
    this.#options = options;
    const { shards } = options;
    this.#slots = new MovingSlots(shards.length, (shard) => shards[shard]?.applied());
  }

  /** Call it before a stream of the shard begins. */
  async begin(shard: number): Promise<void> {
    const { sets } = this.#options;
    const keys = (await sets?.read(shard)) ?? [];
    this.#slots.begin(shard);
    this.#slots.recall(shard, keys);
    // The first shard takes over the keys of shards that no longer exist.
    if (shard === 0) {
      this.#orphans = await this.orphans();
      for (const orphan of this.#orphans)
        this.#slots.adopt(shard, (await sets?.read(orphan)) ?? []);
    }
    this.#settle();
  }

  /** The hooks for the applier of a shard. */
  moves(shard: number): StreamMoves {
    return {
      admits: (argv, offset) => {
        const admitted = this.#slots.admits(shard, argv, offset);
        if (!admitted) this.#settle();
        return admitted;
      },
      before: (begins, ends) => this.#slots.due(shard, begins, ends),
      after: (into) => this.#mark(shard, into),
      pending: () => {
        if (this.#failure !== undefined) throw this.#failure;
        return this.#due.delete(shard) && this.#slots.isDue(shard) ? this.#read(shard) : undefined;
      },
    };
  }

  /** Reads keys of a shard again, as if their slots had moved. */
  readAgain(shard: number, keys: readonly Buffer[]): void {
    this.#slots.adopt(shard, keys);
    this.#settle();
  }

  /** Records that the shard has reached its goal. Returns whether all shards have, and no key is left to be read. */
  concluded(shard: number): boolean {
    const last =
      !this.#arrived.has(shard) && this.#arrived.size + 1 === this.#options.shards.length;
    this.#arrived.add(shard);
    const concluded = this.#concluded;
    if (last && concluded) this.#nudgeAll();
    return concluded;
  }

  /**
   * Waits until a snapshot of the shard can be requested. If the shard got keys that another shard may have in
   * its snapshot or stream, the other shard is applied first.
   */
  async ready(shard: number): Promise<void> {
    await this.#until("a slot is being moved to a master of the source", () => this.#look(shard));
    const came = this.#came.has(shard);
    if (came) this.#behind.add(shard);
    try {
      await this.#others(shard, async (other) =>
        came || this.#shard(other).applied() !== undefined ? this.#offset(other) : undefined,
      );
      this.#came.delete(shard);
    } finally {
      this.#behind.delete(shard);
    }
  }

  /** Whether a snapshot of the shard can be requested without waiting for anything. */
  async isFree(shard: number): Promise<boolean> {
    const { shards } = this.#options;
    if (shards.some(({ applied }, other) => other !== shard && applied() !== undefined))
      return false;
    try {
      return (await this.#look(shard)) && !this.#came.has(shard);
    } catch (error) {
      if (!isPassing(error)) throw error;
      return false;
    }
  }

  /** Records the slots of the shard's master. Returns whether no slot is being moved to it. */
  async #look(shard: number): Promise<boolean> {
    const { slots, importing } = await this.#shard(shard).locator.holdings();
    const had = this.#had.get(shard);
    if (importing.length > 0 || slots.some((slot) => had?.has(slot) === false))
      this.#came.add(shard);
    this.#had.set(shard, new Set(slots));
    return importing.length === 0;
  }

  /** Whether the shard may have got keys before its snapshot was made. Call it when the snapshot has begun. */
  async gained(shard: number): Promise<boolean> {
    const had = this.#had.get(shard);
    const { slots, importing } = await this.#shard(shard).locator.holdings();
    return importing.length > 0 || slots.some((slot) => had?.has(slot) === false);
  }

  /** Rejects with SlotsMovedError when the masters of the source no longer match the shards. Ends with the signal. */
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
        wrong = 0; // the masters are unknown at the moment
      }
      // Twice, because two maps that were read one after the other may differ once.
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

  /** Numbers of shards that the task had and no longer has. */
  async orphans(): Promise<readonly number[]> {
    const { sets, shards } = this.#options;
    return (await sets?.orphans(shards.length)) ?? [];
  }

  /** Waits until the streams of all other shards are applied up to the offset that `goal` returns. */
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
    let before: number | undefined;
    await this.#until("slots are moving, and one shard waits for another", async () => {
      const applied = this.#shard(other).applied();
      // A load may take any time; only a stream that does not advance is a reason to give up.
      if (applied === undefined || applied !== before) since = performance.now();
      before = applied;
      const both = this.#behind.has(shard) && this.#behind.has(other);
      if (both || performance.now() - since > this.#options.patienceMs) {
        throw new SlotsMovedError("shards of the source wait for each other", true);
      }
      return (applied ?? -1) >= offset;
    });
  }

  get #concluded(): boolean {
    return this.#slots.settled && this.#arrived.size === this.#options.shards.length;
  }

  /** Records the keys that are to be read, and removes those that were. */
  #mark(shard: number, into: Transaction<StreamNote>): void {
    const marks = this.#slots.takeMarks(shard);
    const written = this.#slots.takeWritten(shard);
    this.#options.sets?.change(shard, { add: marks, remove: written }, into);
    if (shard !== 0 || this.#orphans.length === 0) return;
    for (const orphan of this.#orphans) this.#options.sets?.drop(orphan, into);
    this.#orphans = [];
  }

  /** Works until all slots are settled. */
  #settle(): void {
    if (this.#settling || this.#slots.settled) return;
    this.#settling = true;
    this.#untilSettled()
      .catch((error) => {
        this.#failure ??= error;
      })
      .finally(() => {
        this.#settling = false;
        if (this.#concluded) this.#nudgeAll();
      });
  }

  async #untilSettled(): Promise<void> {
    const { signal, onWait } = this.#options;
    for (let round = 1; !this.#slots.settled && !this.#closed && !signal.aborted; round++) {
      try {
        await this.#agree(this.#slots.undecided());
        for (const shard of this.#slots.busy()) {
          this.#due.add(shard);
          // A shard that has nothing to apply would not check.
          await this.#ask(shard, [NUDGE]);
        }
      } catch (error) {
        if (!isPassing(error)) throw error;
      }
      if (round === 100) onWait("slots of the source are moving");
      await sleep(round < 100 ? POLL_MS : 10 * POLL_MS, signal).catch(() => {});
    }
  }

  /** Finds undecided slots that have one master again. */
  async #agree(undecided: readonly number[]): Promise<void> {
    if (undecided.length === 0) return;
    const questions: Argument[][] = [
      ["CLUSTER", "NODES"],
      ["INFO", "replication"],
    ];
    const answers = await Promise.all(
      this.#options.shards.map((_, shard) => this.#ask(shard, questions)),
    );
    const holdings = answers.map(([nodes]) => holdingsOf(String(nodes)));
    const offsets = answers.map(([, info]) => offsetOf(info));
    for (const slot of undecided) {
      const owners = holdings.flatMap(({ slots }, shard) => (slots.has(slot) ? [shard] : []));
      const open = ({ importing, migrating }: Holdings) =>
        importing.has(slot) || migrating.has(slot);
      if (owners.length !== 1 || holdings.some(open)) continue;
      this.#slots.settle(slot, owners[0] as number, offsets);
    }
  }

  /** Reads keys that were left out, at the current offset of the stream. */
  async #read(shard: number): Promise<void> {
    const keys = this.#slots.take(shard);
    try {
      const { offset, writes } = await readAnew(await this.#connection(shard), keys);
      this.#slots.read(shard, offset, writes);
      await this.#ask(shard, [NUDGE]);
    } catch (error) {
      if (!isPassing(error)) throw error;
      this.#slots.failed(shard);
    }
    this.#settle();
  }

  #nudgeAll(): void {
    for (const shard of this.#options.shards.keys()) this.#ask(shard, [NUDGE]).catch(() => {});
  }

  async #offset(shard: number): Promise<number> {
    const [info] = await this.#ask(shard, [["INFO", "replication"]]);
    return offsetOf(info);
  }

  async #ask(shard: number, questions: readonly (readonly Argument[])[]): Promise<Reply[]> {
    const writer = new RespWriter();
    for (const question of questions) writer.command(question);
    const connection = await this.#connection(shard);
    return connection.exchange(writer.take(), questions.length);
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

  /** Repeats the question until the result is true. */
  async #until(reason: string, question: () => Promise<boolean>): Promise<void> {
    const { signal, onWait } = this.#options;
    for (let asked = 1; ; asked++) {
      if (signal.aborted) throw new AbortedError("following the source", signal.reason);
      const yes = await question().catch((error) => {
        if (isPassing(error)) return false;
        throw error;
      });
      if (yes) return;
      if (asked === 100) onWait(reason);
      await sleep(asked < 100 ? POLL_MS : 10 * POLL_MS, signal);
    }
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof ConnectionLostError || error instanceof ConnectFailedError;
}
