/** Collects elements of a list, set, sorted set or hash until they fill a part. */
import { NotExpressibleError } from "../errors.ts";
import type { PartBounds } from "../rdb/walk.ts";
import type { ValuePart, ValueType } from "./part.ts";

export class Collector {
  readonly #type: ValueType;
  readonly #bounds: PartBounds;
  #names: Buffer[] = [];
  #values: Buffer[] = [];
  #numbers: number[] = [];
  #bytes = 0;
  #expiring = false;

  constructor(type: ValueType, bounds: PartBounds) {
    this.#type = type;
    this.#bounds = bounds;
  }

  /** Adds an element of a list or a member of a set. Returns true if the part is full. */
  add(element: Buffer): boolean {
    this.#names.push(element);
    this.#bytes += element.length;
    return this.#full;
  }

  /** Adds a member of a sorted set. */
  addScored(member: Buffer, score: number): boolean {
    this.#numbers.push(score);
    return this.add(member);
  }

  /** Adds a field of a hash. It does not expire if `expiresAtMs` is 0 or negative. */
  addField(field: Buffer, value: Buffer, expiresAtMs: number): boolean {
    this.#values.push(value);
    this.#bytes += value.length;
    this.#numbers.push(Math.max(0, expiresAtMs));
    if (expiresAtMs > 0) this.#expiring = true;
    return this.add(field);
  }

  get empty(): boolean {
    return this.#names.length === 0;
  }

  get #full(): boolean {
    return this.#names.length >= this.#bounds.partElements || this.#bytes >= this.#bounds.partBytes;
  }

  /** Returns the part, and starts the next one. */
  take(): ValuePart {
    const part = this.#part();
    this.#names = [];
    this.#values = [];
    this.#numbers = [];
    this.#bytes = 0;
    this.#expiring = false;
    return part;
  }

  #part(): ValuePart {
    const names = this.#names;
    if (this.#type === "list") return { type: "list", elements: names };
    if (this.#type === "set") return { type: "set", members: names };
    if (this.#type === "zset") return { type: "zset", members: names, scores: this.#numbers };
    if (this.#type !== "hash") throw new NotExpressibleError(this.#type, "it has no elements");
    const expiresAtMs = this.#expiring ? this.#numbers : undefined;
    return { type: "hash", fields: names, values: this.#values, expiresAtMs };
  }
}
