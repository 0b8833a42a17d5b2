/**
 * Decides which commands of the source's masters are applied while slots move between the masters.
 *
 *   giving master    ... INCR k ------------ DEL k             MIGRATE leaves this DEL behind
 *   taking master          RESTORE-ASKING k --------- INCR k ...
 *
 * The streams are independent. Applied in the wrong order, the DEL would delete the key. Making one stream wait
 * for the other does not work, because slots that move in both directions would make both wait. So no order
 * is needed at all. A slot that two shards touch is moving: its commands are left out, and the keys that they
 * name are read again from the slot's master once it is settled.
 *
 *              touch by another shard           the slot has one master again; all offsets are known (goal)
 *   settled ------------------------> moving --------------------------------------------------> agreed
 *      ^                                ^                                                        |
 *      |                                '---- another shard touches it after the goal -----------|
 *      |                                                                                         |
 *      '------ no key is left ------ reading <------- all shards have reached the goal ----------'
 *                                    (only commands of the remaining keys are left out)
 *
 * A key that two shards have touched is thus always read after both touches, however late a stream is received or
 * applied, and no shard waits for another. The keys are kept in the target, in a set per shard, written together
 * with the checkpoint that passes their commands; after a crash they are still to be read.
 *
 * There is no I/O here; see slot-fence.ts.
 */
import { keysOf } from "../command/keys.ts";
import { keySlot } from "../command/slot.ts";
import { SLOTS } from "./slot-tags.ts";

/** A key to be read again. */
interface LeftKey {
  readonly key: Buffer;
  /** The shards whose set in the target has it. */
  readonly marked: Set<number>;
}

interface MovingSlot {
  readonly slot: number;
  readonly keys: Map<string, LeftKey>;
  /** The master of the settled slot, and the offset of each shard when it was found. */
  goal: { readonly owner: number; readonly offsets: readonly number[] } | undefined;
  reading: boolean;
}

/** Keys that were read, with their values at the offset. */
interface Reading {
  readonly slot: number;
  readonly goal: MovingSlot["goal"];
  readonly keys: readonly Buffer[];
  offset: number;
  writes: readonly (readonly Buffer[])[];
}

/** A key that was written at an offset of a shard. It leaves the sets when that offset is committed. */
interface Written {
  readonly key: Buffer;
  readonly shard: number;
  readonly offset: number;
}

const NOBODY = -1;
const READ_KEYS = 100;

/** Decides which commands of each shard are applied. */
export class MovingSlots {
  readonly #applied: (shard: number) => number | undefined;
  readonly #shards: number;
  readonly #owners = new Int16Array(SLOTS).fill(NOBODY);
  readonly #moving = new Map<number, MovingSlot>();
  readonly #readings = new Map<number, Reading>();
  readonly #marks: Buffer[][];
  readonly #written: Written[][];

  /** `applied` returns the applied offset of a shard; undefined while it has no stream. */
  constructor(shards: number, applied: (shard: number) => number | undefined) {
    this.#shards = shards;
    this.#applied = applied;
    this.#marks = Array.from({ length: shards }, () => []);
    this.#written = Array.from({ length: shards }, () => []);
  }

  /** Whether all slots are settled. */
  get settled(): boolean {
    return this.#moving.size === 0;
  }

  /** Slots that need a goal. */
  undecided(): number[] {
    return [...this.#moving.values()].flatMap(({ slot, goal }) => (goal ? [] : [slot]));
  }

  /** Whether a command of the unit that ends at the offset is applied; if not, its keys are read later. */
  admits(shard: number, argv: readonly Buffer[], offset: number): boolean {
    const positions = keysOf(argv);
    if (positions === undefined || positions.length === 0) return true;
    const slot = keySlot(argv[positions[0] as number] as Buffer);
    let moving = this.#moving.get(slot);
    if (moving === undefined) {
      if (this.#owners[slot] === NOBODY) this.#owners[slot] = shard;
      if (this.#owners[slot] === shard) return true;
      moving = this.#move(slot);
    }
    const keys = positions.map((at) => argv[at] as Buffer);
    const { goal } = moving;
    if (goal !== undefined) {
      const own = goal.owner === shard;
      if (own && moving.reading && !keys.some((key) => moving.keys.has(nameOf(key)))) return true;
      if (!own && offset > (goal.offsets[shard] as number)) this.#restart(moving);
    }
    for (const key of keys) this.#leave(moving, shard, key);
    return false;
  }

  /** Adds keys that an earlier run left in the set of the shard. */
  recall(shard: number, keys: readonly Buffer[]): void {
    for (const key of keys) this.#leftKey(this.#movingOf(key), key).marked.add(shard);
  }

  /** Takes over keys of a shard that no longer exists. */
  adopt(shard: number, keys: readonly Buffer[]): void {
    for (const key of keys) this.#leave(this.#movingOf(key), shard, key);
  }

  /** Called when the stream of a shard begins again, perhaps with other offsets. */
  begin(shard: number): void {
    this.#readings.delete(shard);
    this.#marks[shard] = [];
    this.#written[shard] = [];
    for (const moving of this.#moving.values()) {
      this.#restart(moving);
      for (const left of moving.keys.values()) left.marked.delete(shard);
    }
    // Writes of the shard may be lost with the end of its stream.
    this.#written.forEach((written, other) => {
      this.#written[other] = written.filter((each) => each.shard !== shard);
      for (const each of written) if (each.shard === shard) this.recall(other, [each.key]);
    });
  }

  /** Called when a slot has one master. `offsets` were read after that was found, and before any key is read. */
  settle(slot: number, owner: number, offsets: readonly number[]): void {
    const moving = this.#moving.get(slot);
    if (moving !== undefined) moving.goal = { owner, offsets };
  }

  /** Whether keys of the shard can be read now. */
  isDue(shard: number): boolean {
    if (this.#readings.has(shard)) return false;
    for (const { goal } of this.#moving.values()) {
      if (goal?.owner === shard && this.#reached(goal.offsets)) return true;
    }
    return false;
  }

  /** Shards that have keys to be read, or to be written once their stream has advanced. */
  busy(): number[] {
    return Array.from({ length: this.#shards }, (_, shard) => shard).filter(
      (shard) => this.#readings.has(shard) || this.isDue(shard),
    );
  }

  /**
   * The keys to be read next, all of one slot because a transaction must not have more. The stream of the shard must
   * not advance until read() or failed() is called.
   */
  take(shard: number): readonly Buffer[] {
    for (const moving of this.#moving.values()) {
      const { goal, slot } = moving;
      if (goal?.owner !== shard || !this.#reached(goal.offsets)) continue;
      moving.reading = true;
      const keys = Array.from(moving.keys.values(), ({ key }) => key).slice(0, READ_KEYS);
      this.#readings.set(shard, { slot, goal, keys, offset: Number.POSITIVE_INFINITY, writes: [] });
      return keys;
    }
    return [];
  }

  /** Stores the commands that write the keys as they were at the offset. */
  read(shard: number, offset: number, writes: readonly (readonly Buffer[])[]): void {
    const reading = this.#readings.get(shard);
    if (reading !== undefined) Object.assign(reading, { offset, writes });
  }

  /** Called when the keys could not be read: their slots may have moved on. */
  failed(shard: number): void {
    const moving = this.#moving.get(this.#readings.get(shard)?.slot ?? NOBODY);
    if (moving !== undefined) this.#restart(moving);
    this.#readings.delete(shard);
  }

  /** The commands to write before the unit that begins at `begins` and ends at `ends`. */
  *due(shard: number, begins: number, ends: number): Generator<readonly Buffer[], void> {
    const reading = this.#readings.get(shard);
    if (reading === undefined || begins < reading.offset) return;
    this.#readings.delete(shard);
    const { slot, goal, keys, writes } = reading;
    const moving = this.#moving.get(slot);
    // The slot has moved again since, so the values are from a former master.
    if (moving === undefined || moving.goal !== goal) return;
    for (const [index, key] of keys.entries()) {
      const left = moving.keys.get(nameOf(key));
      if (left === undefined) continue;
      moving.keys.delete(nameOf(key));
      for (const marked of left.marked) this.#written[marked]?.push({ key, shard, offset: ends });
      yield writes[index] as readonly Buffer[];
    }
    if (moving.keys.size > 0) return;
    this.#moving.delete(slot);
    this.#owners[slot] = shard;
  }

  /** Keys to add to the set of the shard, together with the checkpoint. */
  takeMarks(shard: number): readonly Buffer[] {
    const marks = this.#marks[shard] as Buffer[];
    if (marks.length > 0) this.#marks[shard] = [];
    return marks;
  }

  /** Keys to remove from the set of the shard. */
  takeWritten(shard: number): readonly Buffer[] {
    const written = this.#written[shard] as Written[];
    if (written.length === 0) return written as never[];
    const done: Buffer[] = [];
    this.#written[shard] = written.filter((each) => {
      if ((this.#applied(each.shard) ?? NOBODY) < each.offset) return true;
      const left = this.#moving.get(keySlot(each.key))?.keys.get(nameOf(each.key));
      if (left?.marked.has(shard) !== true) done.push(each.key);
      return false;
    });
    return done;
  }

  #movingOf(key: Buffer): MovingSlot {
    const slot = keySlot(key);
    return this.#moving.get(slot) ?? this.#move(slot);
  }

  #move(slot: number): MovingSlot {
    const moving: MovingSlot = { slot, keys: new Map(), goal: undefined, reading: false };
    this.#moving.set(slot, moving);
    return moving;
  }

  #restart(moving: MovingSlot): void {
    moving.goal = undefined;
    moving.reading = false;
  }

  #leave(moving: MovingSlot, shard: number, key: Buffer): void {
    const { marked } = this.#leftKey(moving, key);
    if (marked.has(shard)) return;
    marked.add(shard);
    this.#marks[shard]?.push(Buffer.from(key));
  }

  #leftKey(moving: MovingSlot, key: Buffer): LeftKey {
    const name = nameOf(key);
    // A copy, because the key is a view of a chunk that would stay in memory with it.
    const left = moving.keys.get(name) ?? { key: Buffer.from(key), marked: new Set<number>() };
    moving.keys.set(name, left);
    return left;
  }

  #reached(offsets: readonly number[]): boolean {
    return offsets.every((offset, shard) => (this.#applied(shard) ?? NOBODY) >= offset);
  }
}

function nameOf(key: Buffer): string {
  return key.toString("latin1");
}
