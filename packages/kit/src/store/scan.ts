/**
 * Pages of keys, for operators. SCAN needs no index, which every acquisition would have to update. Each page
 * looks at a bounded number of keys, so a page may be short, or empty, and still have a cursor.
 */
import { InvalidOptionError, isReply, type Page, type Redis } from "@ropeway/core";
import {
  hashTag,
  integer,
  type OptionTable,
  optional,
  resolveOptions,
  satisfying,
} from "@ropeway/core/internal";
import { isName } from "../keyspace.ts";

const STEP = 1_000;
const MOST_STEPS = 20;
/** Cursors of SCAN have 64 bits. */
const MOST_CURSOR = 2n ** 64n - 1n;

/** Which page. */
export interface ListOptions {
  /** The cursor of the previous page. */
  readonly cursor?: string | undefined;
  /** How many items at most, about. @default 50 */
  readonly limit?: number;
  /** Only names that contain this string. */
  readonly search?: string | undefined;
}

/** The options of every page of keys. */
export const pageSpecs: Omit<OptionTable<ListOptions>, "search"> = {
  cursor: {
    default: undefined,
    rule: optional(satisfying("a cursor of an earlier page", isCursor)),
  },
  limit: { default: 50, rule: integer(1, 1_000) },
};

const table: OptionTable<ListOptions> = {
  ...pageSpecs,
  search: { default: undefined, rule: optional(satisfying("a string", isString)) },
};

function isCursor(value: unknown): boolean {
  return typeof value === "string" && /^\d{1,20}$/.test(value) && BigInt(value) <= MOST_CURSOR;
}

function isString(value: unknown): boolean {
  return typeof value === "string";
}

/** What to look for. */
export interface ScanRequest {
  readonly before: string;
  readonly after?: string;
  readonly type: "string" | "zset" | "list" | "hash";
}

/** The names between `before` and `after` in the keys that exist, without those that are not valid names. */
export async function scanNames(
  redis: Redis,
  { before, after = "", type }: ScanRequest,
  options?: ListOptions,
): Promise<Page<string>> {
  const { search = "", limit, cursor: start = "0" } = resolveOptions(table, options);
  if (redis.topology === "cluster" && hashTag(before) === undefined) {
    throw new InvalidOptionError(
      "prefix",
      before,
      'a string with a hash tag, as in "{shop}", to list keys on Cluster',
    );
  }
  const middle = search === "" ? "*" : `*${escaped(search)}*`;
  const pattern = `${escaped(before)}${middle}${escaped(after)}`;
  let cursor = start;
  const items = new Set<string>();
  for (let step = 0; step < MOST_STEPS && items.size < limit; step++) {
    const command = ["SCAN", cursor, "MATCH", pattern, "COUNT", String(STEP), "TYPE", type];
    const [next, keys] = await redis.send<[string, string[]]>(command, {
      repeatable: true,
      key: before,
    });
    for (const key of keys) {
      const name = key.slice(before.length, key.length - after.length);
      if (isName(name)) items.add(name);
    }
    cursor = next;
    if (cursor === "0") break;
  }
  const page = { items: [...items].sort() };
  return cursor === "0" ? page : { ...page, cursor };
}

/** What is known of each name. A key of another program that only looks like one of ours is left out. */
export async function viewsOf<T>(
  names: readonly string[],
  view: (name: string) => Promise<T | undefined>,
): Promise<T[]> {
  const views = await Promise.all(
    names.map((name) =>
      view(name).catch((error) => {
        if (isReply(error, "WRONGTYPE")) return undefined;
        throw error;
      }),
    ),
  );
  return views.filter((one) => one !== undefined);
}

function escaped(literal: string): string {
  return literal.replace(/[\\*?[\]]/g, (special) => `\\${special}`);
}
