/**
 * Protocol Buffers, as far as etcd's API needs them: a table describes a message, and both the codec
 * and the TypeScript type follow from the table.
 *
 *   field on the wire:   varint(number << 3 | wire type), then
 *     0  varint              bool, int32, int64 (two's complement), uint64
 *     2  varint length, bytes    bytes, string, nested message
 *     1, 5  8 or 4 bytes     not used by us; skipped, as is every unknown field
 *
 * proto3 leaves out fields that have their default value, so decode() fills in the defaults. A 64-bit
 * number is a bigint: lease and member ids use all of the 64 bits.
 */
import { StoreProtocolError } from "../../errors.ts";

/** How one field is written. */
export interface Field<T> {
  readonly number: number;
  readonly repeated: boolean;
  /** The value of a field that is not on the wire. */
  empty(): T;
  write(value: T, out: Writer): void;
  read(previous: T, wire: number | bigint | Buffer): T;
}

/** The fields of one message by name. */
export type Fields<T> = { readonly [K in keyof T]-?: Field<T[K]> };

/** A message as a caller writes it: what is left out has its default value. */
export type Sparse<T> = {
  readonly [K in keyof T]?: T[K] extends readonly (infer U)[]
    ? readonly Sparse<U>[]
    : T[K] extends object | undefined
      ? Sparse<NonNullable<T[K]>> | undefined
      : T[K];
};

/** A message type: encodes and decodes. */
export interface Message<T> {
  readonly fields: Fields<T>;
  encode(value: Sparse<T>): Buffer;
  decode(bytes: Buffer): T;
}

const VARINT = 0;
const LENGTH = 2;
const MASK_64 = (1n << 64n) - 1n;

/** Describes a message. */
export function message<T>(fields: Fields<T>): Message<T> {
  const named = Object.entries(fields) as [string, Field<unknown>][];
  const byNumber = new Map(named.map(([name, field]) => [field.number, { name, field }]));
  return {
    fields,
    encode(value) {
      const out = new Writer();
      for (const [name, field] of named) {
        const given = (value as Record<string, unknown>)[name];
        if (given !== undefined) field.write(given, out);
      }
      return out.toBuffer();
    },
    decode(bytes) {
      const result: Record<string, unknown> = {};
      for (const [name, field] of named) result[name] = field.empty();
      const reader = new Reader(bytes);
      while (!reader.done) {
        const { number, value } = reader.field();
        const known = byNumber.get(number);
        if (known !== undefined) {
          result[known.name] = known.field.read(result[known.name], value);
        }
      }
      return result as T;
    },
  };
}

/** A signed 64-bit number. */
export function int64(number: number): Field<bigint> {
  return varint(number, 0n, {
    toWire: (value) => value & MASK_64,
    fromWire: (wire) => BigInt.asIntN(64, wire),
  });
}

/** An unsigned 64-bit number. */
export function uint64(number: number): Field<bigint> {
  return varint(number, 0n, { toWire: (value) => value, fromWire: (wire) => wire });
}

/** A small number, or one of an enum. */
export function int32(number: number): Field<number> {
  return varint(number, 0, {
    toWire: (value) => BigInt(value) & MASK_64,
    fromWire: (wire) => Number(BigInt.asIntN(32, wire)),
  });
}

/** True or false. */
export function bool(number: number): Field<boolean> {
  return varint(number, false, {
    toWire: (value) => (value ? 1n : 0n),
    fromWire: (wire) => wire !== 0n,
  });
}

/** A string in UTF-8. etcd's `bytes` are strings for us too: our keys and values are text. */
export function text(number: number): Field<string> {
  return {
    number,
    repeated: false,
    empty: () => "",
    write: (value, out) => {
      if (value !== "") out.bytes(number, Buffer.from(value));
    },
    read: (_, wire) => lengthField(number, wire).toString("utf8"),
  };
}

/** Bytes that need not be a string: keys of other programs. Written from either, read as they are. */
export function bytes(number: number): Field<Buffer | string> {
  return {
    number,
    repeated: false,
    empty: () => "",
    write: (value, out) => {
      if (value.length > 0) out.bytes(number, Buffer.from(value as string));
    },
    read: (_, wire) => lengthField(number, wire),
  };
}

/** A message inside a message; undefined if it is not there. */
export function nested<T>(number: number, type: Message<T>): Field<T | undefined> {
  return {
    number,
    repeated: false,
    empty: () => undefined,
    write: (value, out) => {
      if (value !== undefined) out.bytes(number, type.encode(value as Sparse<T>));
    },
    read: (_, wire) => type.decode(lengthField(number, wire)),
  };
}

/** Any number of messages. */
export function list<T>(number: number, type: Message<T>): Field<readonly T[]> {
  return {
    number,
    repeated: true,
    empty: () => [],
    write: (values, out) => {
      for (const value of values) out.bytes(number, type.encode(value as Sparse<T>));
    },
    read: (previous, wire) => {
      const found = previous as T[];
      found.push(type.decode(lengthField(number, wire)));
      return found;
    },
  };
}

function varint<T>(
  number: number,
  empty: T,
  convert: { toWire(value: T): bigint; fromWire(wire: bigint): T },
): Field<T> {
  return {
    number,
    repeated: false,
    empty: () => empty,
    write: (value, out) => {
      if (value !== empty) out.varintField(number, convert.toWire(value));
    },
    read: (_, wire) => {
      if (typeof wire !== "bigint") throw new StoreProtocolError(`field ${number} is no varint`);
      return convert.fromWire(wire);
    },
  };
}

function lengthField(number: number, wire: number | bigint | Buffer): Buffer {
  if (!Buffer.isBuffer(wire)) throw new StoreProtocolError(`field ${number} has no length`);
  return wire;
}

/** Collects the bytes of one message. */
export class Writer {
  readonly #parts: Buffer[] = [];

  varintField(number: number, value: bigint): void {
    this.#parts.push(varintBytes(BigInt((number << 3) | VARINT)), varintBytes(value));
  }

  bytes(number: number, value: Buffer): void {
    const head = varintBytes(BigInt((number << 3) | LENGTH));
    this.#parts.push(head, varintBytes(BigInt(value.length)), value);
  }

  toBuffer(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

function varintBytes(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  field(): { number: number; value: number | bigint | Buffer } {
    const tag = Number(this.#varint());
    const number = tag >>> 3;
    switch (tag & 7) {
      case VARINT:
        return { number, value: this.#varint() };
      case LENGTH:
        return { number, value: this.#take(Number(this.#varint())) };
      case 1:
        return { number, value: this.#take(8).length };
      case 5:
        return { number, value: this.#take(4).length };
      default:
        throw new StoreProtocolError(`wire type ${tag & 7} is unknown`);
    }
  }

  #varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) throw new StoreProtocolError("a number is cut off");
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value & MASK_64;
    }
    throw new StoreProtocolError("a number is longer than 64 bits");
  }

  #take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new StoreProtocolError("a field is cut off");
    const part = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return part;
  }
}
