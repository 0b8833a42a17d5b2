/**
 * Where a key of the source is written: the database and the name, or nowhere. Snapshots, streams and
 * verification share this decision.
 */
import { InvalidOptionError } from "@ropeway/core";
import { beginsWith, KeyFilter, type KeyFilterOptions, requireFields } from "./key-filter.ts";
import { isTaskKey } from "./keys.ts";
import type { SyncOptions } from "./options.ts";

/** Which keys and commands are copied. */
export interface SyncFilterOptions extends KeyFilterOptions {
  /** Commands of the stream that are copied, in either case. @default all */
  readonly acceptCommands?: readonly string[];
  /** Commands of the stream that are left out. @default none */
  readonly refuseCommands?: readonly string[];
  /** A command is copied if its name and its keys are accepted ("and"), or if one of them is ("or"). @default "and" */
  readonly combine?: "and" | "or";
}

/** Decides where each key is written. */
export class Mapping {
  readonly keys: KeyFilter;
  /** Whether all keys except the task's own are copied under the same name and database. */
  readonly identity: boolean;
  readonly combine: "and" | "or";
  readonly #dbs: ReadonlyMap<number, number> | undefined;
  readonly #prefixes: readonly (readonly [Buffer, Buffer])[];
  readonly #accept: ReadonlySet<string> | undefined;
  readonly #refuse: ReadonlySet<string> | undefined;

  constructor(options: Pick<SyncOptions, "dbMap" | "filter" | "rename">) {
    const { dbMap, rename, filter = {} } = options;
    requireFilter(filter);
    const { acceptCommands, refuseCommands, combine = "and", ...keys } = filter;
    this.keys = new KeyFilter(keys);
    this.combine = combine;
    this.#accept = acceptCommands && new Set(acceptCommands.map(upper));
    this.#refuse = refuseCommands && new Set(refuseCommands.map(upper));
    this.#dbs =
      dbMap && new Map(Object.entries(dbMap).map(([from, to]) => [Number(from), Number(to)]));
    this.#prefixes = Object.entries(rename ?? {}).map(
      ([from, to]) => [Buffer.from(from), Buffer.from(to)] as const,
    );
    this.identity = this.#dbs === undefined && !this.partial;
  }

  /** Whether some keys of a copied database are left out or renamed, or some commands. */
  get partial(): boolean {
    return this.picksCommands || !this.keys.isOpen || this.renames;
  }

  /** Whether commands are left out by their name. */
  get picksCommands(): boolean {
    return this.#accept !== undefined || this.#refuse !== undefined;
  }

  get renames(): boolean {
    return this.#prefixes.length > 0;
  }

  /** The source's databases that are copied; undefined if all are. */
  get dbs(): readonly number[] | undefined {
    return this.#dbs && [...this.#dbs.keys()];
  }

  /** The database at the target; undefined if it is not copied. */
  db(source: number): number | undefined {
    return this.#dbs === undefined ? source : this.#dbs.get(source);
  }

  /** The name at the target. */
  key(source: Buffer): Buffer {
    for (const [from, to] of this.#prefixes) {
      if (beginsWith(source, from)) {
        return Buffer.concat([to, source.subarray(from.length)]);
      }
    }
    return source;
  }

  /** Whether a command is copied. `name` is in upper case. */
  command(name: string): boolean {
    return (this.#accept?.has(name) ?? true) && !(this.#refuse?.has(name) ?? false);
  }

  /** Whether this task may have written a key of the target. */
  mayHaveWritten(key: Buffer): boolean {
    return this.origins(key).length > 0;
  }

  /** The keys of the source that are copied under this name. */
  origins(key: Buffer): readonly Buffer[] {
    const names = this.#prefixes.flatMap(([from, to]) =>
      beginsWith(key, to) ? [Buffer.concat([from, key.subarray(to.length)])] : [],
    );
    return [key, ...names].filter((name) => this.copies(name) && this.key(name).equals(key));
  }

  /** Whether a key of a snapshot is copied. */
  copies(key: Buffer): boolean {
    return !isTaskKey(key) && this.keys.accepts(key);
  }
}

const FIELDS = ["accept", "refuse", "acceptCommands", "refuseCommands", "combine"];

function requireFilter(filter: SyncFilterOptions): void {
  requireFields("filter", filter, FIELDS);
  for (const field of ["acceptCommands", "refuseCommands"] as const) {
    const names: unknown = filter[field];
    const valid = Array.isArray(names) && names.every((name) => typeof name === "string");
    if (names !== undefined && !valid) {
      throw new InvalidOptionError(`filter.${field}`, names, "an array of command names");
    }
  }
  const { combine = "and" } = filter;
  if (combine !== "and" && combine !== "or") {
    throw new InvalidOptionError("filter.combine", combine, 'one of "and", "or"');
  }
}

function upper(name: string): string {
  return String(name).trim().toUpperCase();
}
