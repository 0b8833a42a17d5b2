/**
 * Remembers which keys a snapshot had, in 8 bytes each, so that other keys can be found afterwards. A 64-bit hash
 * represents a key. If two keys collide, a key that should be deleted stays; a key of the snapshot is never
 * deleted.
 *
 * The table is open-addressed and doubles when it is three quarters full.
 */

const FIRST_SLOTS = 1 << 16;

/** The keys that a snapshot had, as hashes. */
export class SeenKeys {
  #low: Uint32Array = new Uint32Array(FIRST_SLOTS);
  #high: Uint32Array = new Uint32Array(FIRST_SLOTS);
  #count = 0;

  get size(): number {
    return this.#count;
  }

  add(db: number, key: Buffer): void {
    const [low, high] = hash(db, key);
    if (!this.#insert(low, high)) return;
    this.#count += 1;
    if (this.#count * 4 > this.#low.length * 3) this.#grow();
  }

  has(db: number, key: Buffer): boolean {
    const [low, high] = hash(db, key);
    const mask = this.#low.length - 1;
    for (let at = low & mask; ; at = (at + 1) & mask) {
      if (this.#low[at] === 0 && this.#high[at] === 0) return false;
      if (this.#low[at] === low && this.#high[at] === high) return true;
    }
  }

  /** Returns false if it is already there. */
  #insert(low: number, high: number): boolean {
    const mask = this.#low.length - 1;
    for (let at = low & mask; ; at = (at + 1) & mask) {
      if (this.#low[at] === 0 && this.#high[at] === 0) {
        this.#low[at] = low;
        this.#high[at] = high;
        return true;
      }
      if (this.#low[at] === low && this.#high[at] === high) return false;
    }
  }

  #grow(): void {
    const [low, high] = [this.#low, this.#high];
    this.#low = new Uint32Array(low.length * 2);
    this.#high = new Uint32Array(low.length * 2);
    for (let at = 0; at < low.length; at++) {
      if (low[at] !== 0 || high[at] !== 0) this.#insert(low[at] as number, high[at] as number);
    }
  }
}

/** Two FNV-1a variants with a final mix; never both 0, which marks an empty slot. */
function hash(db: number, key: Buffer): [number, number] {
  let a = 0x811c9dc5 ^ db;
  let b = 0x9e3779b9 + db;
  for (let i = 0; i < key.length; i++) {
    const byte = key[i] as number;
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul(b ^ byte, 0x85ebca6b);
    b = (b << 13) | (b >>> 19);
  }
  return [mix(a ^ key.length), (mix(b) | 1) >>> 0];
}

function mix(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
