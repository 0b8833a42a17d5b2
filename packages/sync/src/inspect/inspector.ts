/**
 * Summarises an RDB while it is read: what it contains, what is large, when keys expire. Memory does not depend on
 * the file: a bounded number of prefixes and large keys, and no values.
 */
import { integer, type OptionTable, resolveOptions, text } from "@ropeway/core/internal";
import type { RdbBegin, RdbEnd, RdbEntry, RdbFamily, RdbKey } from "../rdb/entry.ts";
import { moduleOf } from "../rdb/module-walk.ts";
import { shapeOf } from "../rdb/shape.ts";
import type { ValueType } from "../value/part.ts";
import { encodingName } from "./encoding-name.ts";
import { type ExpiryBucket, ExpiryHistogram } from "./expiry-histogram.ts";
import { countOf, memoryOf } from "./memory.ts";
import { type PrefixSum, PrefixTable } from "./prefix-table.ts";
import { type TopKey, TopKeys } from "./top-keys.ts";

/** Options of an inspector. */
export interface InspectOptions {
  /** How many keys and prefixes are listed. @default 20 */
  readonly top?: number;
  /** The delimiter after a prefix. @default ":" */
  readonly delimiter?: string;
  /** How many delimiters a prefix contains. @default 1 */
  readonly depth?: number;
  /** The maximum number of prefixes that are counted at the same time. @default 10000 */
  readonly maxPrefixes?: number;
}

export const inspectOptions: OptionTable<InspectOptions> = {
  top: { default: 20, rule: integer(0, 10_000) },
  delimiter: { default: ":", rule: text },
  depth: { default: 1, rule: integer(1, 100) },
  maxPrefixes: { default: 10_000, rule: integer(2, 1_000_000) },
};

/** The totals of a group of keys. */
export interface KeySum {
  readonly keys: number;
  /** Estimated memory in a server. */
  readonly bytes: number;
  /** Bytes in the file. */
  readonly fileBytes: number;
}

/** What an RDB contains. */
export interface RdbSummary {
  readonly family: RdbFamily;
  /** The RDB version. */
  readonly version: number;
  /** Fields that the server wrote, such as `redis-ver`. Scripts are only counted. */
  readonly aux: Readonly<Record<string, string>>;
  readonly total: KeySum;
  readonly expiring: number;
  /** By type, encoding and database; the largest first. */
  readonly types: readonly (KeySum & { readonly type: ValueType })[];
  readonly encodings: readonly (KeySum & { readonly encoding: string })[];
  readonly dbs: readonly (KeySum & { readonly db: number })[];
  readonly biggest: readonly TopKey[];
  /** An empty prefix stands for keys without the delimiter. */
  readonly prefixes: readonly PrefixSum[];
  readonly otherPrefixes: { readonly keys: number; readonly bytes: number };
  /** When keys expire, relative to the time of the snapshot. */
  readonly expiry: readonly ExpiryBucket[];
  readonly functions: number;
  readonly scripts: number;
  /** Types of modules that have data in the file. */
  readonly modules: readonly string[];
  readonly fileBytes: number;
  readonly checksum: "verified" | "absent" | "skipped" | undefined;
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };
type Sums<K> = Map<K, Writable<KeySum>>;

const LONGEST_KEY = 200;
const LONGEST_AUX = 1000;
const MOST_AUX = 100;

/** Takes the entries of one RDB. */
export class RdbInspector {
  readonly #prefixes: PrefixTable;
  readonly #biggest: TopKeys;
  readonly #top: number;
  readonly #expiry = new ExpiryHistogram();
  readonly #types: Sums<ValueType> = new Map();
  readonly #encodings: Sums<number> = new Map();
  readonly #dbs: Sums<number> = new Map();
  readonly #total: Writable<KeySum> = { keys: 0, bytes: 0, fileBytes: 0 };
  readonly #aux = new Map<string, string>();
  readonly #modules = new Set<string>();
  #family: RdbFamily = "redis";
  #version = 0;
  #nowMs: number;
  #expiring = 0;
  #functions = 0;
  #scripts = 0;
  #begun: RdbBegin | undefined;
  #fileBytes = 0;
  #checksum: RdbSummary["checksum"];

  /** `nowMs` replaces the time of the snapshot if the file does not have it. */
  constructor(nowMs: number, options: InspectOptions = {}) {
    const { top, delimiter, depth, maxPrefixes } = resolveOptions(inspectOptions, options);
    this.#nowMs = nowMs;
    this.#top = top;
    this.#prefixes = new PrefixTable(delimiter, depth, maxPrefixes);
    this.#biggest = new TopKeys(top);
  }

  add(entry: RdbEntry): void {
    switch (entry.kind) {
      case "key":
        this.#addKey(entry);
        break;
      case "begin":
        this.#begun = entry;
        break;
      case "part":
        if (entry.part.type === "module") this.#modules.add(entry.part.module);
        break;
      case "end":
        this.#addLarge(entry);
        break;
      case "header":
        this.#family = entry.family;
        this.#version = entry.version;
        break;
      case "aux":
        this.#addAux(entry.name, entry.value);
        break;
      case "function":
        this.#functions++;
        break;
      case "module-aux":
        this.#modules.add(entry.module);
        break;
      case "eof":
        this.#fileBytes = entry.bytes;
        this.#checksum = entry.checksum;
        break;
    }
  }

  #addAux(name: string, value: Buffer): void {
    if (name === "lua") {
      this.#scripts++;
      return;
    }
    if (this.#aux.size < MOST_AUX) this.#aux.set(name, value.toString("utf8", 0, LONGEST_AUX));
    const seconds = name === "ctime" ? Number(value.toString("latin1")) : 0;
    if (seconds > 0) this.#nowMs = seconds * 1000;
  }

  #addKey(key: RdbKey): void {
    const { family, type, valueType, decodedBytes } = key;
    if (valueType === "module") this.#modules.add(moduleOf(key.raw));
    const packed = shapeOf(family, type)?.layout === "blob";
    const elements = valueType === "string" || packed ? 0 : (countOf(key) ?? 0);
    const keyBytes = key.keyEnd - key.keyStart;
    const expires = key.expiresAtMs >= 0;
    const bytes = memoryOf({ keyBytes, valueType, decodedBytes, loose: elements, expires });
    this.#count(key, bytes, keyBytes + key.rawEnd - key.rawStart);
    if (this.#biggest.wants(bytes)) {
      const listed =
        shapeOf(family, type)?.packing === undefined || packed ? countOf(key) : undefined;
      this.#list(key, { bytes, fileBytes: key.rawEnd - key.rawStart, elements: listed });
    }
  }

  #addLarge({ bytes: fileBytes, elements, decodedBytes }: RdbEnd): void {
    const key = this.#begun;
    if (key === undefined) return;
    this.#begun = undefined;
    const { valueType } = key;
    const loose = shapeOf(key.family, key.type)?.packing === undefined ? elements : 0;
    const keyBytes = key.key.length;
    const expires = key.expiresAtMs >= 0;
    const counted = valueType === "string" || valueType === "module";
    const bytes = memoryOf({
      keyBytes,
      valueType,
      decodedBytes,
      loose: counted ? 0 : loose,
      expires,
    });
    this.#count(key, bytes, keyBytes + fileBytes);
    if (this.#biggest.wants(bytes)) {
      this.#list(key, { bytes, fileBytes, elements: counted ? undefined : elements });
    }
  }

  #list(
    key: RdbKey | RdbBegin,
    size: {
      readonly bytes: number;
      readonly fileBytes: number;
      readonly elements: number | undefined;
    },
  ): void {
    const { db, valueType: type, family } = key;
    const name = key.key.toString("utf8", 0, LONGEST_KEY);
    this.#biggest.add({ db, key: name, type, encoding: encodingName(family, key.type), ...size });
  }

  #count(key: RdbKey | RdbBegin, bytes: number, fileBytes: number): void {
    if (key.expiresAtMs >= 0) this.#expiring++;
    this.#expiry.add(key.expiresAtMs, this.#nowMs);
    this.#prefixes.add(key.key, bytes);
    const sums = [
      this.#total,
      sumOf(this.#types, key.valueType),
      sumOf(this.#encodings, key.type),
      sumOf(this.#dbs, key.db),
    ];
    for (const sum of sums) {
      sum.keys++;
      sum.bytes += bytes;
      sum.fileBytes += fileBytes;
    }
  }

  /** The summary of everything read so far. */
  get summary(): RdbSummary {
    const family = this.#family;
    const largest = <K>(sums: Sums<K>) => [...sums].sort(([, a], [, b]) => b.bytes - a.bytes);
    return {
      family,
      version: this.#version,
      aux: Object.fromEntries(this.#aux),
      total: this.#total,
      expiring: this.#expiring,
      types: largest(this.#types).map(([type, sum]) => ({ type, ...sum })),
      encodings: largest(this.#encodings).map(([type, sum]) => ({
        encoding: encodingName(family, type),
        ...sum,
      })),
      dbs: [...this.#dbs].sort(([a], [b]) => a - b).map(([db, sum]) => ({ db, ...sum })),
      biggest: this.#biggest.list,
      prefixes: this.#prefixes.top(this.#top),
      otherPrefixes: this.#prefixes.others(this.#top),
      expiry: this.#expiry.buckets,
      functions: this.#functions,
      scripts: this.#scripts,
      modules: [...this.#modules],
      fileBytes: this.#fileBytes,
      checksum: this.#checksum,
    };
  }
}

function sumOf<K>(sums: Sums<K>, key: K): Writable<KeySum> {
  let sum = sums.get(key);
  if (sum === undefined) {
    sum = { keys: 0, bytes: 0, fileBytes: 0 };
    sums.set(key, sum);
  }
  return sum;
}
