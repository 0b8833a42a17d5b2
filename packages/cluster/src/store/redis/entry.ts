import type { Entry } from "../store.ts";

/** An entry from its path, value and meta: "createRevision modRevision version lease". */
export function entryOf(key: string, value: string, meta: string): Entry {
  const [create, mod, version, lease = ""] = meta.split(" ");
  return {
    key,
    value,
    createRevision: Number(create),
    modRevision: Number(mod),
    version: Number(version),
    lease: lease === "" ? undefined : lease,
  };
}

/** The same from a script's {value, meta} or {}. */
export function foundEntry(key: string, found: readonly string[]): Entry | undefined {
  const [value, meta] = found;
  return value === undefined || meta === undefined ? undefined : entryOf(key, value, meta);
}
