import { isUtf8 } from "node:buffer";
import { isKey } from "../limits.ts";
import type { Entry } from "../store.ts";
import type { KeyValue } from "./messages.ts";

/** Whether the key is one that a store can write. Other programs write keys of all kinds into the same etcd. */
export function isUsable({ key }: KeyValue): boolean {
  return (typeof key === "string" || isUtf8(key)) && isKey(String(key));
}

/** An entry as etcd describes it. */
export function entryOf(kv: KeyValue): Entry {
  return {
    key: String(kv.key),
    value: kv.value,
    createRevision: Number(kv.createRevision),
    modRevision: Number(kv.modRevision),
    version: Number(kv.version),
    lease: kv.lease === 0n ? undefined : String(kv.lease),
  };
}
