/**
 * Reads keys of a cluster for comparison, each from the master that owns its slot. A transaction of a cluster has
 * the keys of one slot only, so keys of different slots are read at different moments.
 */
import { ConnectFailedError, ConnectionLostError } from "@ropeway/core";
import { sleep } from "@ropeway/core/internal";
import type { ClusterNodes } from "../cluster/nodes.ts";
import { keySlot } from "../command/slot.ts";
import {
  type KeyPage,
  KeyReader,
  type KeySource,
  type KeyState,
  type ReadKeys,
} from "./key-reader.ts";

const ATTEMPTS = 10;
const PAUSE_MS = 100;
const MOVING = /\b(MOVED|ASK|TRYAGAIN|CLUSTERDOWN|EXECABORT|LOADING|MASTERDOWN)\b/;

/** Reads keys of a cluster for comparison. ClusterNodes owns the connections. */
export class ClusterKeyReader implements KeySource {
  readonly #nodes: ClusterNodes;
  readonly #ttlShiftMs: number;

  constructor(nodes: ClusterNodes, ttlShiftMs: number) {
    this.#nodes = nodes;
    this.#ttlShiftMs = ttlShiftMs;
  }

  async dbs(): Promise<number[]> {
    return [0];
  }

  async *scan(db: number, count: number): AsyncGenerator<KeyPage, void> {
    for (const { address } of await this.#nodes.masters()) {
      yield* new KeyReader(await this.#nodes.at(address)).scan(db, count);
    }
  }

  async read(db: number, keys: readonly Buffer[]): Promise<ReadKeys> {
    const states: KeyState[] = new Array(keys.length);
    let offset: number | undefined;
    let bytes = 0;
    await this.#perSlot(keys, async (reader, some, places) => {
      const found = await reader.read(db, some);
      places.forEach((place, at) => {
        states[place] = found.states[at] as KeyState;
      });
      // One offset describes all of the keys only if they are in one slot.
      offset = some.length === keys.length ? found.offset : undefined;
      bytes += found.bytes;
    });
    return { states, offset, bytes };
  }

  async exist(db: number, keys: readonly Buffer[]): Promise<boolean[]> {
    const exists: boolean[] = new Array(keys.length).fill(false);
    await this.#perSlot(keys, async (reader, some, places) => {
      const found = await reader.exist(db, some);
      places.forEach((place, at) => {
        exists[place] = found[at] as boolean;
      });
    });
    return exists;
  }

  /** Queries the owners of the keys. Repeats all queries if a slot moved or a master was lost meanwhile. */
  async #perSlot(
    keys: readonly Buffer[],
    ask: (reader: KeyReader, some: readonly Buffer[], places: readonly number[]) => Promise<void>,
  ): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        const slots = new Map<number, number[]>();
        keys.forEach((key, place) => {
          const slot = keySlot(key);
          const places = slots.get(slot);
          if (places === undefined) slots.set(slot, [place]);
          else places.push(place);
        });
        const questions: (() => Promise<void>)[] = [];
        for (const [slot, places] of slots) {
          const node = await this.#nodes.at(await this.#nodes.addressOf(slot));
          const reader = new KeyReader(node, this.#ttlShiftMs);
          const some = places.map((place) => keys[place] as Buffer);
          questions.push(() => ask(reader, some, places));
        }
        // All at once, so that queries to one master are sent in one pipeline.
        await Promise.all(questions.map((question) => question()));
        return;
      } catch (error) {
        if (!isPassing(error) || attempt === ATTEMPTS) throw error;
        await sleep(PAUSE_MS * attempt);
        await this.#nodes.refresh();
      }
    }
  }
}

function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionLostError || error instanceof ConnectFailedError) return true;
  return error instanceof Error && MOVING.test(error.message);
}
