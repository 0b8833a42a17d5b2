/**
 * The CRC64 of RDB files and DUMP payloads: Jones polynomial, reflected, initial value 0, no final xor.
 *
 * JavaScript has no fast 64-bit integers, so a checksum is two 32-bit halves. Eight bytes are
 * processed at a time ("slicing by 8"): table k holds the effect of a byte that k more bytes follow.
 */

/** The reflected polynomial 0x95AC9329AC4BC9B5. */
const POLYNOMIAL_LOW = 0xac4bc9b5 | 0;
const POLYNOMIAL_HIGH = 0x95ac9329 | 0;
const SLICES = 8;

const LOW = new Int32Array(SLICES * 256);
const HIGH = new Int32Array(SLICES * 256);

for (let byte = 0; byte < 256; byte++) {
  let low = byte;
  let high = 0;
  for (let bit = 0; bit < 8; bit++) {
    const odd = low & 1;
    low = (low >>> 1) | (high << 31);
    high >>>= 1;
    if (odd) {
      low ^= POLYNOMIAL_LOW;
      high ^= POLYNOMIAL_HIGH;
    }
  }
  LOW[byte] = low;
  HIGH[byte] = high;
}
for (let at = 256; at < SLICES * 256; at++) {
  const low = LOW[at - 256] as number;
  const high = HIGH[at - 256] as number;
  const byte = low & 0xff;
  LOW[at] = ((low >>> 8) | (high << 24)) ^ (LOW[byte] as number);
  HIGH[at] = (high >>> 8) ^ (HIGH[byte] as number);
}

const NONE = new Uint8Array(0);

/** A running checksum. */
export class Crc64 {
  /** The lower 32 bits, signed. */
  low = 0;
  /** The upper 32 bits, signed. */
  high = 0;
  /** The bytes of the last update and their view, which reads four of them at once. */
  #bytes: Uint8Array = NONE;
  #view: DataView = new DataView(NONE.buffer);

  reset(): this {
    this.low = 0;
    this.high = 0;
    return this;
  }

  /** Adds the bytes from `start` to `end`. */
  update(bytes: Uint8Array, start: number = 0, end: number = bytes.length): this {
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    }
    const view = this.#view;
    let low = this.low;
    let high = this.high;
    let at = start;
    for (const last = end - 7; at < last; at += 8) {
      const a = low ^ view.getInt32(at, true);
      const b = high ^ view.getInt32(at + 4, true);
      const t7 = 1792 | (a & 0xff);
      const t6 = 1536 | ((a >>> 8) & 0xff);
      const t5 = 1280 | ((a >>> 16) & 0xff);
      const t4 = 1024 | (a >>> 24);
      const t3 = 768 | (b & 0xff);
      const t2 = 512 | ((b >>> 8) & 0xff);
      const t1 = 256 | ((b >>> 16) & 0xff);
      const t0 = b >>> 24;
      low =
        (LOW[t7] as number) ^
        (LOW[t6] as number) ^
        (LOW[t5] as number) ^
        (LOW[t4] as number) ^
        (LOW[t3] as number) ^
        (LOW[t2] as number) ^
        (LOW[t1] as number) ^
        (LOW[t0] as number);
      high =
        (HIGH[t7] as number) ^
        (HIGH[t6] as number) ^
        (HIGH[t5] as number) ^
        (HIGH[t4] as number) ^
        (HIGH[t3] as number) ^
        (HIGH[t2] as number) ^
        (HIGH[t1] as number) ^
        (HIGH[t0] as number);
    }
    for (; at < end; at++) {
      const byte = (low ^ (bytes[at] as number)) & 0xff;
      low = ((low >>> 8) | (high << 24)) ^ (LOW[byte] as number);
      high = (high >>> 8) ^ (HIGH[byte] as number);
    }
    this.low = low;
    this.high = high;
    return this;
  }

  /** Writes the eight bytes of the checksum, lowest first, as in files and payloads. */
  write(target: Buffer, at: number): void {
    const { low, high } = this;
    // Byte by byte, because the checks of writeInt32LE cost more than the writes, once per key.
    target[at] = low;
    target[at + 1] = low >>> 8;
    target[at + 2] = low >>> 16;
    target[at + 3] = low >>> 24;
    target[at + 4] = high;
    target[at + 5] = high >>> 8;
    target[at + 6] = high >>> 16;
    target[at + 7] = high >>> 24;
  }

  /** Whether the eight bytes at `at` are this checksum. */
  matches(bytes: Buffer, at: number): boolean {
    return bytes.readInt32LE(at) === this.low && bytes.readInt32LE(at + 4) === this.high;
  }

  /** Sixteen hexadecimal digits, highest first. */
  toString(): string {
    return hex(this.high) + hex(this.low);
  }
}

/** The checksum in a file or payload as sixteen hexadecimal digits. */
export function checksumAt(bytes: Buffer, at: number): string {
  return hex(bytes.readInt32LE(at + 4)) + hex(bytes.readInt32LE(at));
}

function hex(half: number): string {
  return (half >>> 0).toString(16).padStart(8, "0");
}
