/**
 * Prevents keys that are renewed during a full synchronisation from vanishing.
 *
 * Example: in the snapshot a key expires at 10:03. At 10:02 the source renews it, which is in the stream after
 * the snapshot. If the snapshot takes until 10:08 to load, the key is written with an expiry in the past,
 * and the renewal finds no key. So near expiries are held back:
 *
 *   load      the key is written with the fence, an expiry far in the future, and its real expiry goes to a list in
 *             the target, in the same transaction
 *   stream    is applied up to the offset that the source had when the load ended. It deletes keys that the source
 *             expired, and sets new expiries for keys that the source renewed
 *   settle    a key whose expiry is still the fence gets its real one
 *
 * The list is in the target, so a run on another machine can settle it after a crash. RENAME, COPY, MOVE and
 * SWAPDB carry an expiry to another key; the list records these moves in order.
 *
 *   entry:  f64 fence, then records:  u8 0 | u32 db | f64 expiry | u32 length | key
 *                                     u8 1 | u32 db | u32 length | key | u32 db | u32 length | key
 *                                     u8 2 | u32 db | u32 other db
 */

/** A key with the expiry that it had in the snapshot. */
export interface HeldExpiry {
  readonly kind: "expiry";
  readonly db: number;
  readonly key: Buffer;
  readonly expiresAtMs: number;
}

/** A key that took over the expiry of another one. */
export interface Alias {
  readonly kind: "alias";
  readonly db: number;
  readonly key: Buffer;
  readonly toDb: number;
  readonly toKey: Buffer;
}

/** Two databases that were exchanged. */
export interface Swap {
  readonly kind: "swap";
  readonly db: number;
  readonly toDb: number;
}

/** One entry of the list. */
export interface HeldEntry {
  readonly fenceMs: number;
  readonly records: readonly (HeldExpiry | Alias | Swap)[];
}

const EXPIRY = 0;
const ALIAS = 1;
const SWAP = 2;
const MONTH_MS = 30 * 24 * 3_600_000;

/** The fence of a load that begins now. */
export function fenceFrom(nowMs: number): number {
  return nowMs + MONTH_MS;
}

/** Packs records for the list. */
export class HeldWriter {
  readonly #fenceMs: number;
  #pieces: Buffer[] = [];

  constructor(fenceMs: number) {
    this.#fenceMs = fenceMs;
  }

  get empty(): boolean {
    return this.#pieces.length === 0;
  }

  expiry(db: number, key: Buffer, expiresAtMs: number): void {
    const head = Buffer.allocUnsafe(17);
    head[0] = EXPIRY;
    head.writeUInt32LE(db, 1);
    head.writeDoubleLE(expiresAtMs, 5);
    head.writeUInt32LE(key.length, 13);
    this.#pieces.push(head, key);
  }

  alias({ db, key, toDb, toKey }: Omit<Alias, "kind">): void {
    const head = Buffer.allocUnsafe(9);
    head[0] = ALIAS;
    head.writeUInt32LE(db, 1);
    head.writeUInt32LE(key.length, 5);
    const middle = Buffer.allocUnsafe(8);
    middle.writeUInt32LE(toDb, 0);
    middle.writeUInt32LE(toKey.length, 4);
    this.#pieces.push(head, key, middle, toKey);
  }

  swap({ db, toDb }: Omit<Swap, "kind">): void {
    const head = Buffer.allocUnsafe(9);
    head[0] = SWAP;
    head.writeUInt32LE(db, 1);
    head.writeUInt32LE(toDb, 5);
    this.#pieces.push(head);
  }

  /** Returns the entry for the list, and starts the next one. */
  take(): Buffer {
    const fence = Buffer.allocUnsafe(8);
    fence.writeDoubleLE(this.#fenceMs, 0);
    const entry = Buffer.concat([fence, ...this.#pieces]);
    this.#pieces = [];
    return entry;
  }
}

/** Reads an entry of the list. */
export function readHeld(entry: Buffer): HeldEntry {
  const records: (HeldExpiry | Alias | Swap)[] = [];
  let at = 8;
  const u32 = () => {
    at += 4;
    return entry.readUInt32LE(at - 4);
  };
  const key = () => {
    const length = u32();
    at += length;
    return entry.subarray(at - length, at);
  };
  while (at < entry.length) {
    const kind = entry[at];
    at += 1;
    const db = u32();
    if (kind === EXPIRY) {
      const expiresAtMs = entry.readDoubleLE(at);
      at += 8;
      records.push({ kind: "expiry", db, expiresAtMs, key: key() });
    } else if (kind === SWAP) records.push({ kind: "swap", db, toDb: u32() });
    else {
      const from = key();
      const toDb = u32();
      records.push({ kind: "alias", db, key: from, toDb, toKey: key() });
    }
  }
  return { fenceMs: entry.readDoubleLE(0), records };
}
