/**
 * An RDB as JSON lines, one per key, written in pieces so that a value of any size needs the memory of one
 * part.
 *
 *   {"kind":"key","db":0,"key":"user:1","type":"hash","value":[["name","Ada"],["age","36"]]}
 *
 *   string   "text"                        set      ["member", ...]
 *   list     ["element", ...]              zset     [["member", 1.5], ...]       "inf", "-inf"
 *   hash     [["field", "value"], ...]     with a third item, if the field expires
 *   stream   [{"id": "1-1", "fields": ["f", "v"]}, ..., {"group": ...}, ...]
 *
 * Bytes that are not UTF-8, and strings that come in parts, are {"base64": "..."}. Arrays instead of objects,
 * because fields may be bytes too.
 */
import { isUtf8 } from "node:buffer";
import type { RdbEntry, RdbKeyAttributes } from "../rdb/entry.ts";
import { decodeValue } from "../value/decode.ts";
import type { HashPart, StreamId, StreamPart, ValuePart } from "../value/part.ts";

/** Converts the entries of one RDB to text. */
export class JsonLines {
  /** Whether the next item is the first of the current array or string. */
  #first = true;
  /** Bytes left over from a group of three, which base64 needs. */
  #rest: Buffer = Buffer.alloc(0);
  #type: RdbKeyAttributes["valueType"] = "string";

  /** The line of a command of a stream. */
  static command(db: number, argv: readonly Buffer[]): string {
    return `{"kind":"command","db":${db},"argv":[${argv.map(textOf).join(",")}]}\n`;
  }

  /**
   * The text of the next entry, in pieces; none for entries that are not data. `as` is the name and database
   * to print for a key, if they differ from those in the RDB.
   */
  *pieces(entry: RdbEntry, as?: Pick<RdbKeyAttributes, "db" | "key">): Generator<string, void> {
    switch (entry.kind) {
      case "key": {
        yield* this.#begin(entry, entry.valueType === "string", as);
        for (const part of decodeValue(entry)) {
          if (part.type === "string") yield textOf(part.bytes);
          else yield this.#items(part);
        }
        yield entry.valueType === "string" ? "}\n" : "]}\n";
        break;
      }
      case "begin":
        yield* this.#begin(entry, false, as);
        break;
      case "part":
        yield isBytes(this.#type) ? this.#base64(entry.part) : this.#items(entry.part);
        break;
      case "end":
        yield isBytes(this.#type) ? `${this.#rest.toString("base64")}"}}\n` : "]}\n";
        this.#rest = Buffer.alloc(0);
        break;
      case "function":
        yield `{"kind":"function","code":${textOf(entry.code)}}\n`;
        break;
      case "aux":
        yield `{"kind":"aux","name":${JSON.stringify(entry.name)},"value":${textOf(entry.value)}}\n`;
        break;
    }
  }

  *#begin(
    key: RdbKeyAttributes,
    whole: boolean,
    as: Pick<RdbKeyAttributes, "db" | "key"> = key,
  ): Generator<string, void> {
    const { valueType, expiresAtMs } = key;
    const { db } = as;
    this.#first = true;
    this.#type = valueType;
    const expiry = expiresAtMs < 0 ? "" : `,"expiresAt":${timeOf(expiresAtMs)}`;
    const head = `{"kind":"key","db":${db},"key":${textOf(as.key)},"type":"${valueType}"${expiry}`;
    if (whole) yield `${head},"value":`;
    else yield `${head},"value":${"raw" in key || !isBytes(valueType) ? "[" : '{"base64":"'}`;
  }

  #base64(part: ValuePart): string {
    if (part.type !== "string" && part.type !== "module") return "";
    const bytes = Buffer.concat([this.#rest, part.bytes]);
    const whole = bytes.length - (bytes.length % 3);
    this.#rest = bytes.subarray(whole);
    return bytes.toString("base64", 0, whole);
  }

  #items(part: ValuePart): string {
    const items = itemsOf(part);
    if (items.length === 0) return "";
    const comma = this.#first ? "" : ",";
    this.#first = false;
    return comma + items.join(",");
  }
}

function isBytes(type: RdbKeyAttributes["valueType"]): boolean {
  return type === "string" || type === "module";
}

function itemsOf(part: ValuePart): string[] {
  switch (part.type) {
    case "list":
      return part.elements.map(textOf);
    case "set":
      return part.members.map(textOf);
    case "zset":
      return part.members.map((member, i) => `[${textOf(member)},${scoreOf(part.scores[i])}]`);
    case "hash":
      return part.fields.map((_, i) => fieldOf(part, i));
    case "array":
      return part.values.map((value, i) => `[${part.indexes[i]},${textOf(value)}]`);
    case "stream":
      return streamItems(part);
    case "string":
    case "module":
      return [`{"base64":"${part.bytes.toString("base64")}"}`];
  }
}

function fieldOf({ fields, values, expiresAtMs }: HashPart, i: number): string {
  const expiry = expiresAtMs?.[i] ? `,${timeOf(expiresAtMs[i] as number)}` : "";
  return `[${textOf(fields[i] as Buffer)},${textOf(values[i] as Buffer)}${expiry}]`;
}

function streamItems(part: StreamPart): string[] {
  switch (part.piece) {
    case "entries":
      return part.entries.map(
        ({ id, fields }) => `{"id":${idOf(id)},"fields":[${fields.map(textOf).join(",")}]}`,
      );
    case "info":
      return [`{"length":${part.length},"lastId":${idOf(part.lastId)}}`];
    case "group":
      return [`{"group":${textOf(part.name)},"lastId":${idOf(part.lastId)}}`];
    case "pending":
      return part.pending.map(
        ({ id, deliveredAtMs, deliveries }) =>
          `{"pending":${idOf(id)},"deliveredAt":${timeOf(deliveredAtMs)},"deliveries":${deliveries}}`,
      );
    case "consumer":
      return [`{"consumer":${textOf(part.name)},"seenAt":${timeOf(part.seenAtMs)}}`];
    case "owned":
      return part.ids.map((id) => `{"owned":${idOf(id)}}`);
    case "nacked":
      return part.ids.map((id) => `{"nacked":${idOf(id)}}`);
    case "idempotency":
      return [`{"producers":${part.producers}}`];
  }
}

function idOf({ ms, seq }: StreamId): string {
  return `"${ms}-${seq}"`;
}

function textOf(bytes: Buffer): string {
  if (isUtf8(bytes)) return JSON.stringify(bytes.toString());
  return `{"base64":"${bytes.toString("base64")}"}`;
}

function scoreOf(score: number | undefined): string {
  if (score === Number.POSITIVE_INFINITY) return '"inf"';
  return score === Number.NEGATIVE_INFINITY ? '"-inf"' : String(score);
}

const LATEST = 8_640_000_000_000_000;

/** ISO 8601, or a number if a Date cannot represent it. */
function timeOf(ms: number): string {
  return Math.abs(ms) <= LATEST ? `"${new Date(ms).toISOString()}"` : String(ms);
}
