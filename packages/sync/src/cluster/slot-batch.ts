/** Commands for one slot of a cluster, collected while a snapshot is loaded. */
import { keysOf } from "../command/keys.ts";
import { requireDatabase } from "../database-range.ts";
import type { Argument } from "../resp/writer.ts";
import type { CommandBatch, StringSlice } from "../sink/transaction.ts";
import type { SlotCommand } from "./slot-writer.ts";

/** The commands for one slot. */
export class SlotBatch<N> implements CommandBatch<N> {
  readonly slot: number;
  readonly list: SlotCommand[] = [];
  readonly notes: N[] = [];
  #bytes = 0;

  constructor(slot: number) {
    this.slot = slot;
  }

  get commands(): number {
    return this.list.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get empty(): boolean {
    return this.list.length === 0;
  }

  /** A cluster has one database. */
  select(db: number): void {
    requireDatabase(db, 1);
  }

  command(argv: readonly Argument[], note: N): void {
    const words = argv.map((word) => (Buffer.isBuffer(word) ? word : Buffer.from(String(word))));
    const keys = (keysOf(words) ?? [1]).map((at) => words[at]).filter((key) => key !== undefined);
    this.list.push({ argv: words, keys });
    this.notes.push(note);
    for (const word of words) this.#bytes += word.length + 16;
  }

  set({ key, bytes, start, end }: StringSlice, expiresAtMs: number, note: N): void {
    const expiry = expiresAtMs < 0 ? [] : ["PXAT", expiresAtMs];
    this.command(["SET", key, bytes.subarray(start, end), ...expiry], note);
  }
}
