import type { Entry } from "../store.ts";
import type { KeyValue } from "./messages.ts";

/** An entry as etcd describes it. */
export function entryOf(kv: KeyValue): Entry {
  return {
    key: kv.key,
    value: kv.value,
    createRevision: Number(kv.createRevision),
    modRevision: Number(kv.modRevision),
    version: Number(kv.version),
    lease: kv.lease === 0n ? undefined : String(kv.lease),
  };
}
