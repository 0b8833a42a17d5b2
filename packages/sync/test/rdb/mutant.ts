// Broken RDB files, and what must hold for each of them.
import { RopewayError } from "@ropeway/core";
import type { RdbEntry, RdbKey } from "../../src/rdb/entry.ts";
import { RdbReader } from "../../src/rdb/reader.ts";
import { decodeValue } from "../../src/value/decode.ts";
import { ValueDigest } from "../../src/value/digest.ts";
import { bytesOf } from "../../src/value/measure.ts";

/** A small generator of pseudo-random numbers, so that a failure can be repeated by its seed. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A whole number below `n`. */
  below(n: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % n;
  }
}

const SPECIAL = [
  0x00, 0x01, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc3, 0xc4, 0xf0, 0xf4, 0xfe, 0xff,
];

/** A file with a few bytes flipped, replaced, removed, doubled, or its end cut off. */
export function mutate(file: Buffer, dice: Dice): Buffer {
  let bytes = Buffer.from(file);
  for (let times = 1 + dice.below(4); times > 0 && bytes.length > 10; times--) {
    // The header is left alone more often than not, because a broken one hides everything else.
    const at = dice.below(20) === 0 ? dice.below(9) : 9 + dice.below(bytes.length - 9);
    switch (dice.below(6)) {
      case 0:
        bytes[at] = (bytes[at] as number) ^ (1 << dice.below(8));
        break;
      case 1:
        bytes[at] = dice.below(256);
        break;
      case 2:
        bytes[at] = SPECIAL[dice.below(SPECIAL.length)] as number;
        break;
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + dice.below(9))]);
        break;
      case 4: {
        const from = dice.below(bytes.length);
        const piece = bytes.subarray(from, from + 1 + dice.below(30));
        bytes = Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at)]);
        break;
      }
      case 5:
        bytes = Buffer.from(bytes.subarray(0, dice.below(3) === 0 ? at : bytes.length));
        break;
    }
  }
  return bytes;
}

/** How reading ended: what was found before, and the error if there was one. */
export interface Outcome {
  readonly found: string;
  readonly error: string | undefined;
  /** The decoded size of everything that was found. */
  readonly bytes: number;
}

/** Reads a file and decodes every value in it. Anything but an error of ours is thrown on. */
export function outcomeOf(file: Buffer, chunkOf: () => number, small: boolean): Outcome {
  const bounds = small ? { maxRawBytes: 50, partElements: 5, partBytes: 8192 } : {};
  const reader = new RdbReader({ ...bounds, maxElementBytes: 16 * 1024 * 1024, checksum: false });
  const digest = new ValueDigest();
  let entries = 0;
  let bytes = 0;
  const take = (entry: RdbEntry) => {
    entries++;
    if (entry.kind === "key") {
      for (const part of tolerant(entry)) {
        digest.add(part);
        bytes += bytesOf(part);
      }
    } else if (entry.kind === "part") {
      digest.add(entry.part);
      bytes += bytesOf(entry.part);
    }
  };
  let error: string | undefined;
  try {
    for (let at = 0; at < file.length && !reader.finished; ) {
      const size = chunkOf();
      reader.push(file.subarray(at, at + size));
      at += size;
      for (let entry = reader.next(); entry !== undefined; entry = reader.next()) take(entry);
    }
    reader.end();
  } catch (caught) {
    if (!(caught instanceof RopewayError)) throw caught;
    error = `${caught.code} at ${caught.details.offset}`;
  }
  return { found: `${entries} ${digest.finish()}`, error, bytes };
}

/** The parts of a value up to the first byte that is wrong. */
function* tolerant(key: RdbKey) {
  try {
    yield* decodeValue(key);
  } catch (caught) {
    if (!(caught instanceof RopewayError)) throw caught;
  }
}
