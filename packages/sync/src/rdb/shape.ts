/**
 * The layout of each type's value, by family. Since 2025 Redis and Valkey use the same numbers for
 * different things, so a type id means nothing without its family.
 *
 *   layout     value
 *   string     one string
 *   blob       [8 bytes] one string that holds a packed collection
 *   counted    [8 bytes] n, then n elements; `element` lists the items of one
 *   stream, module, array: walked by their own code
 */
import type { ValueType } from "../value/part.ts";
import type { RdbFamily } from "./entry.ts";

/** The items of one element of a counted value. */
export type Item = "string" | "length" | "eight" | "score";

/** How the bytes of a blob are packed. */
export type Packing = "ziplist" | "listpack" | "intset" | "zipmap";

/** The layout of one type. */
export interface Shape extends Layout {
  readonly earliest: boolean;
  readonly packing: Packing | undefined;
  readonly element: readonly Item[] | undefined;
  readonly expiring: boolean;
  /** Whether all items are strings. */
  readonly strings: boolean;
}

/** A layout without the fields that are the same for most types. */
interface Layout {
  readonly valueType: ValueType;
  readonly layout: "string" | "blob" | "counted" | "stream" | "module" | "array";
  /** The lowest RDB version whose readers know the type; RESTORE payloads carry it in their footer. */
  readonly since: number;
  /** Whether eight bytes (the earliest field expiry) come first. */
  readonly earliest?: boolean;
  readonly packing?: Packing | undefined;
  readonly element?: readonly Item[] | undefined;
  /** Whether the elements of a hash blob are triples with an expiry. */
  readonly expiring?: boolean;
}

const STRING: Layout = { valueType: "string", layout: "string", since: 1 };

const SHARED: readonly (Layout | undefined)[] = [
  STRING,
  { valueType: "list", layout: "counted", since: 1, element: ["string"] },
  { valueType: "set", layout: "counted", since: 1, element: ["string"] },
  { valueType: "zset", layout: "counted", since: 1, element: ["string", "score"] },
  { valueType: "hash", layout: "counted", since: 1, element: ["string", "string"] },
  { valueType: "zset", layout: "counted", since: 8, element: ["string", "eight"] },
  undefined, // 6: a module's value before Redis 4.0, which cannot be walked
  { valueType: "module", layout: "module", since: 8 },
  undefined,
  { valueType: "hash", layout: "blob", since: 1, packing: "zipmap" },
  { valueType: "list", layout: "blob", since: 2, packing: "ziplist" },
  { valueType: "set", layout: "blob", since: 2, packing: "intset" },
  { valueType: "zset", layout: "blob", since: 2, packing: "ziplist" },
  { valueType: "hash", layout: "blob", since: 4, packing: "ziplist" },
  { valueType: "list", layout: "counted", since: 7, packing: "ziplist", element: ["string"] },
  { valueType: "stream", layout: "stream", since: 9 },
  { valueType: "hash", layout: "blob", since: 10, packing: "listpack" },
  { valueType: "zset", layout: "blob", since: 10, packing: "listpack" },
  {
    valueType: "list",
    layout: "counted",
    since: 10,
    packing: "listpack",
    element: ["length", "string"],
  },
  { valueType: "stream", layout: "stream", since: 10 },
  { valueType: "set", layout: "blob", since: 11, packing: "listpack" },
  { valueType: "stream", layout: "stream", since: 11 },
];

const REDIS = shapes([
  ...SHARED,
  {
    valueType: "hash",
    layout: "counted",
    since: 12,
    element: ["length", "string", "string"],
    expiring: true,
  },
  { valueType: "hash", layout: "blob", since: 12, packing: "listpack", expiring: true },
  {
    valueType: "hash",
    layout: "counted",
    since: 12,
    earliest: true,
    element: ["length", "string", "string"],
    expiring: true,
  },
  {
    valueType: "hash",
    layout: "blob",
    since: 12,
    earliest: true,
    packing: "listpack",
    expiring: true,
  },
  { valueType: "stream", layout: "stream", since: 13 },
  { valueType: "stream", layout: "stream", since: 14 },
  { valueType: "array", layout: "array", since: 14 },
]);

const VALKEY = shapes([
  ...SHARED,
  {
    valueType: "hash",
    layout: "counted",
    since: 80,
    element: ["string", "string", "eight"],
    expiring: true,
  },
]);

/** All shapes have the same fields, because the code that reads them for every key is faster then. */
function shapes(layouts: readonly (Layout | undefined)[]): (Shape | undefined)[] {
  return layouts.map((layout) => {
    if (layout === undefined) return undefined;
    const { valueType, layout: name, since, earliest = false, packing, element } = layout;
    const strings = element?.every((item) => item === "string") ?? false;
    const { expiring = false } = layout;
    return { valueType, layout: name, since, earliest, packing, element, expiring, strings };
  });
}

/** The layout of a type, or undefined if this family has no such type or it cannot be read. */
export function shapeOf(family: RdbFamily, type: number): Shape | undefined {
  return (family === "valkey" ? VALKEY : REDIS)[type];
}

/** Why a type has no shape, for the error. */
export function whyUnknown(family: RdbFamily, type: number): string {
  if (type === 6) return "values of modules before Redis 4.0 have no end mark";
  if (family === "valkey") return type === 23 ? "it is not released" : "the type is unknown";
  if (type >= 29 && type <= 32) return "the layout of hash templates (Redis 8.10) is not confirmed";
  if (type === 33) return "only Redis Enterprise writes it";
  return "the type is unknown";
}

/** Whether this version can be read. */
export function knownVersion(family: RdbFamily, version: number): boolean {
  return family === "valkey" ? version === 80 : version >= 1 && version <= 15;
}
