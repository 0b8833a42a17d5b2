/**
 * A digest of a value that does not depend on its encoding, on the server that wrote it, or on the order of
 * unordered elements. Two servers hold the same value if and only if the digests are equal.
 *
 *   string, list, stream entries     a running SHA-1 over the elements in order
 *   set, zset, hash, groups          the sum modulo 2^160 of the elements' SHA-1, which does not depend on the order
 *
 * The digest leaves out differences without meaning: the times of consumers (seen, active), the
 * first id of a stream, and counters that only Redis 7 and later have.
 */
import { createHash, type Hash } from "node:crypto";
import type {
  HashPart,
  StreamEntry,
  StreamId,
  StreamPart,
  ValuePart,
  ValueType,
  ZsetPart,
} from "./part.ts";

const DIGEST_BYTES = 20;
const WORDS = DIGEST_BYTES / 4;

/** Collects the parts of one value. */
export class ValueDigest {
  #type: ValueType | undefined;
  readonly #ordered: Hash = createHash("sha1");
  readonly #sum = new Uint32Array(WORDS);
  readonly #head = Buffer.alloc(8);
  #group: Buffer = Buffer.alloc(0);
  #consumer: Buffer = Buffer.alloc(0);
  #elements = 0;

  /** Adds the next part. A value may be split into parts in any way. */
  add(part: ValuePart): this {
    this.#type = part.type;
    switch (part.type) {
      case "string":
        this.#ordered.update(part.bytes);
        this.#elements += part.bytes.length;
        break;
      case "list":
        for (const element of part.elements) this.#append(element);
        break;
      case "set":
        for (const member of part.members) this.#add([member]);
        break;
      case "zset":
        this.#addScored(part);
        break;
      case "hash":
        this.#addFields(part);
        break;
      case "stream":
        this.#addStream(part);
        break;
      case "array":
        part.values.forEach((value, i) => {
          this.#add([Buffer.from(String(part.indexes[i])), value]);
        });
        break;
      case "module":
        this.#ordered.update(part.bytes);
        break;
    }
    return this;
  }

  /** The type and 40 hexadecimal digits. */
  finish(): string {
    const hash = this.#ordered;
    const sum = Buffer.from(this.#sum.buffer);
    return `${this.#type ?? "none"}:${hash.update(sum).update(String(this.#elements)).digest("hex")}`;
  }

  #addScored({ members, scores }: ZsetPart): void {
    for (let i = 0; i < members.length; i++) {
      const score = Buffer.alloc(8);
      // Minus zero and zero are equal scores.
      score.writeDoubleLE((scores[i] as number) + 0);
      this.#add([members[i] as Buffer, score]);
    }
  }

  #addFields({ fields, values, expiresAtMs }: HashPart): void {
    for (let i = 0; i < fields.length; i++) {
      const pieces = [fields[i] as Buffer, values[i] as Buffer];
      if (expiresAtMs?.[i]) pieces.push(Buffer.from(String(expiresAtMs[i])));
      this.#add(pieces);
    }
  }

  #addStream(part: StreamPart): void {
    switch (part.piece) {
      case "entries":
        for (const entry of part.entries) this.#addEntry(entry);
        break;
      case "info":
        this.#append(textOf(part.lastId));
        break;
      case "group":
        this.#group = part.name;
        this.#add([GROUP, part.name, textOf(part.lastId)]);
        break;
      case "pending":
        for (const { id, deliveries } of part.pending) {
          this.#add([PENDING, this.#group, textOf(id), Buffer.from(String(deliveries))]);
        }
        break;
      case "consumer":
        this.#consumer = part.name;
        this.#add([CONSUMER, this.#group, part.name]);
        break;
      case "owned":
        for (const id of part.ids) this.#add([OWNED, this.#group, this.#consumer, textOf(id)]);
        break;
      case "nacked":
        for (const id of part.ids) this.#add([NACKED, this.#group, textOf(id)]);
        break;
      case "idempotency":
        break; // expires by itself
    }
  }

  #addEntry({ id, fields }: StreamEntry): void {
    this.#append(textOf(id));
    for (const field of fields) this.#append(field);
  }

  /** Adds an element whose position matters. Its length separates it from its neighbours. */
  #append(element: Buffer): void {
    this.#elements++;
    this.#head.writeUInt32LE(element.length);
    this.#ordered.update(this.#head).update(element);
  }

  /** Adds an element whose position does not matter. */
  #add(pieces: readonly Buffer[]): void {
    this.#elements++;
    const hash = createHash("sha1");
    for (const piece of pieces) {
      this.#head.writeUInt32LE(piece.length);
      hash.update(this.#head).update(piece);
    }
    const digest = hash.digest();
    let carry = 0;
    for (let word = 0; word < WORDS; word++) {
      const total = (this.#sum[word] as number) + digest.readUInt32LE(4 * word) + carry;
      this.#sum[word] = total;
      carry = total > 0xffff_ffff ? 1 : 0;
    }
  }
}

const GROUP = Buffer.from("group");
const PENDING = Buffer.from("pending");
const CONSUMER = Buffer.from("consumer");
const OWNED = Buffer.from("owned");
const NACKED = Buffer.from("nacked");

function textOf({ ms, seq }: StreamId): Buffer {
  return Buffer.from(`${ms}-${seq}`);
}

/** The digest of a whole value. */
export function digestOf(parts: Iterable<ValuePart>): string {
  const digest = new ValueDigest();
  for (const part of parts) digest.add(part);
  return digest.finish();
}
