/**
 * A cluster without servers: masters that write, hand slots over and put everything into their streams, links that deliver late,
 * a syncer that is killed, and appliers that take their time. A random number chooses each step, so that thousands of
 * orders are tried in a second.
 */
import { MovingSlots } from "../../src/cluster/moving-slots.ts";
import { keySlot } from "../../src/command/slot.ts";

/** How large the cluster is, and how long it lives. */
export interface ImaginedOptions {
  readonly masters: number;
  readonly steps: number;
  /** Up to which step no syncer runs: everything until then is received later. */
  readonly downUntil?: number;
  /** Whether the syncer is killed now and then. */
  readonly kills?: boolean;
  /** A number from 0 to below `below`. */
  random(below: number): number;
}

const KEYS = ["a{1}", "b{1}", "a{2}", "b{2}", "a{3}", "b{3}"];

interface Written {
  readonly words: readonly string[];
  readonly end: number;
}

/** A master with its stream, and how far the syncer is with it. */
class Master {
  readonly keys = new Map<string, string>();
  readonly stream: Written[] = [];
  end = 0;
  received = 0;
  applied = 0;
  /** The set in the target. */
  readonly moved = new Set<string>();
}

/** See above. */
export class ImaginedCluster {
  readonly target = new Map<string, string>();
  readonly #options: ImaginedOptions;
  readonly #masters: Master[];
  readonly #owners = new Map<number, number>();
  /** Where a slot is being moved to. */
  readonly #moves = new Map<number, number>();
  #slots: MovingSlots;
  #writes = 0;

  constructor(options: ImaginedOptions) {
    this.#options = options;
    this.#masters = Array.from({ length: options.masters }, () => new Master());
    KEYS.forEach((key, index) => {
      this.#owners.set(slotOf(key), index % options.masters);
    });
    this.#slots = this.#start();
  }

  /** What clients would read. */
  get truth(): Map<string, string> {
    return new Map(this.#masters.flatMap(({ keys }) => [...keys]));
  }

  /** How many keys the target still has to read. */
  get left(): number {
    return this.#masters.reduce((sum, { moved }) => sum + moved.size, 0);
  }

  /** Lives, and then applies everything that is left. Throws if that does not end. */
  run(): void {
    const { steps, downUntil = 0, kills, random } = this.#options;
    const anyone = () => random(this.#masters.length);
    for (let step = 0; step < steps; step++) {
      const kind = step < downUntil ? 0 : random(20);
      if (kind < 8) this.#change();
      else if (kind < 12) this.#receive(anyone());
      else if (kind < 14) this.#agree();
      else if (kind < 19) this.#apply(anyone());
      else if (kills) this.#slots = this.#start();
    }
    for (const [slot, to] of [...this.#moves])
      while (this.#moves.get(slot) === to) this.#move(slot);
    for (let round = 0; !this.#isDone(); round++) {
      if (round > steps * 10) throw new Error("it does not end");
      this.#agree();
      this.#masters.forEach((_, shard) => {
        if (random(2) === 0) this.#append(shard, ["PING"]);
        this.#receive(shard);
        this.#apply(shard);
      });
    }
  }

  #isDone(): boolean {
    return (
      this.#slots.settled &&
      this.left === 0 &&
      this.#masters.every(({ applied, stream }) => applied === stream.length)
    );
  }

  /** A new run of the syncer: it knows what is in the target. */
  #start(): MovingSlots {
    const position = (shard: number) => {
      const { applied, stream } = this.#masters[shard] as Master;
      return stream[applied - 1]?.end ?? 0;
    };
    const slots = new MovingSlots(this.#options.masters, position);
    this.#masters.forEach((master, shard) => {
      master.received = master.applied;
      slots.begin(shard);
      slots.recall(
        shard,
        [...master.moved].map((key) => Buffer.from(key)),
      );
    });
    return slots;
  }

  #change(): void {
    const { random } = this.#options;
    if (random(10) < 6) this.#write(KEYS[random(KEYS.length)] as string);
    else this.#move([...this.#owners.keys()][random(this.#owners.size)] as number);
  }

  #write(key: string): void {
    const slot = slotOf(key);
    const owner = this.#owners.get(slot) as number;
    const to = this.#moves.get(slot);
    const asked = to !== undefined && !this.#masters[owner]?.keys.has(key) ? to : owner;
    const { keys } = this.#masters[asked] as Master;
    if (this.#options.random(5) === 0) {
      if (keys.delete(key)) this.#append(asked, ["DEL", key]);
      return;
    }
    this.#writes += 1;
    keys.set(key, `${keys.get(key) ?? ""}${this.#writes},`);
    this.#append(asked, ["APPEND", key, `${this.#writes},`]);
  }

  /** The next step of moving a slot. */
  #move(slot: number): void {
    const from = this.#owners.get(slot) as number;
    const to = this.#moves.get(slot);
    if (to === undefined) {
      const next = this.#options.random(this.#masters.length);
      if (next !== from) this.#moves.set(slot, next);
      return;
    }
    const { keys } = this.#masters[from] as Master;
    const key = [...keys.keys()].find((each) => slotOf(each) === slot);
    if (key === undefined) {
      this.#owners.set(slot, to);
      this.#moves.delete(slot);
      return;
    }
    const value = keys.get(key) as string;
    this.#masters[to]?.keys.set(key, value);
    this.#append(to, ["RESTORE-ASKING", key, "0", value]);
    keys.delete(key);
    this.#append(from, ["DEL", key]);
  }

  #append(shard: number, words: readonly string[]): void {
    const master = this.#masters[shard] as Master;
    master.end += words.join(" ").length;
    master.stream.push({ words, end: master.end });
  }

  #receive(shard: number): void {
    const master = this.#masters[shard] as Master;
    const more = 1 + this.#options.random(4);
    master.received = Math.min(master.stream.length, master.received + more);
  }

  #agree(): void {
    const ends = this.#masters.map(({ end }) => end);
    for (const slot of this.#slots.undecided()) {
      if (!this.#moves.has(slot)) this.#slots.settle(slot, this.#owners.get(slot) as number, ends);
    }
  }

  #apply(shard: number): void {
    const master = this.#masters[shard] as Master;
    if (this.#slots.isDue(shard)) this.#read(shard);
    const next = master.stream[master.applied];
    if (next === undefined || master.applied >= master.received) return;
    const begins = master.stream[master.applied - 1]?.end ?? 0;
    const argv = next.words.map((word) => Buffer.from(word));
    for (const write of this.#slots.due(shard, begins, next.end)) this.#execute(write);
    if (this.#slots.admits(shard, argv, next.end)) this.#execute(argv);
    for (const key of this.#slots.takeMarks(shard)) master.moved.add(String(key));
    for (const key of this.#slots.takeWritten(shard)) master.moved.delete(String(key));
    master.applied += 1;
  }

  #read(shard: number): void {
    const keys = this.#slots.take(shard);
    const master = this.#masters[shard] as Master;
    if (new Set(keys.map((key) => slotOf(String(key)))).size > 1) throw new Error("CROSSSLOT");
    // The answer of a master that has lost the slot since.
    if (keys.some((key) => this.#owners.get(slotOf(String(key))) !== shard)) {
      this.#slots.failed(shard);
      return;
    }
    const writes = keys.map((key) => {
      const value = master.keys.get(String(key));
      const words = value === undefined ? ["DEL"] : ["RESTORE"];
      return [...words, String(key), "0", value ?? ""].map((word) => Buffer.from(word));
    });
    this.#slots.read(shard, master.end, writes);
  }

  #execute(argv: readonly Buffer[]): void {
    const [name, key = "", first = "", second = ""] = argv.map(String);
    if (name === "DEL") this.target.delete(key);
    else if (name === "APPEND") this.target.set(key, `${this.target.get(key) ?? ""}${first}`);
    else if (name !== "PING") this.target.set(key, second);
  }
}

function slotOf(key: string): number {
  return keySlot(Buffer.from(key));
}
