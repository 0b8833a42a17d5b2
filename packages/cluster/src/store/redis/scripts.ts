/** The Lua scripts of the Redis store. */
import { defineScript, type Reply, type Script } from "@ropeway/core";

const strings = (reply: Reply) => reply as string[];

export const storeTxn: Script<readonly Reply[]> = script("store-txn", (reply) => reply as Reply[]);
/** The same script, for transactions that only read: it is repeated when no response came. */
export const storeReadTxn: Script<readonly Reply[]> = { ...storeTxn, idempotent: true };
export const storeList: Script<string[]> = script("store-list", strings, true);
export const storeRead: Script<string[][]> = script(
  "store-read",
  (reply) => reply as string[][],
  true,
);
export const storeEvents: Script<string[]> = script("store-events", strings, true);
export const storeGrant: Script<number> = script("store-grant", Number, true);
export const storeKeepAlive: Script<number> = script("store-keep-alive", Number, true);
export const storeDue: Script<readonly (string | number)[]> = script(
  "store-due",
  (reply) => reply as (string | number)[],
  true,
);
export const storeRevoke: Script<number> = script("store-revoke", Number, true);

function script<T>(name: string, parse: (reply: Reply) => T, idempotent = false): Script<T> {
  return defineScript(new URL(`../../../lua/${name}.lua`, import.meta.url), { parse, idempotent });
}
