/** The scripts of file distribution; store.ts is the only caller. */
import { defineScript, type Reply, type Script } from "@ropeway/core";
import { lua } from "../scripts.ts";

export const beginScript: Script<readonly Reply[]> = defineScript(lua("files/begin"), {
  idempotent: true,
});
export const announcedScript: Script<number> = defineScript(lua("files/announced"), {
  idempotent: true,
});
// A chunk has its index: a second run after a lost reply changes nothing.
export const putScript: Script<readonly Reply[]> = defineScript(lua("files/put"), {
  idempotent: true,
});
export const takeScript: Script<readonly Reply[]> = defineScript(lua("files/take"), {
  idempotent: true,
  binary: true,
});
export const finishScript: Script<readonly string[]> = defineScript(lua("files/finish"), {
  idempotent: true,
});
export const doneScript: Script<number> = defineScript(lua("files/done"), { idempotent: true });
export const abandonScript: Script<number> = defineScript(lua("files/abandon"), {
  idempotent: true,
});
