/** The scripts of autocomplete; store.ts is the only caller. */
import { defineScript, type Script } from "@ropeway/core";
import { lua } from "../scripts.ts";

export const rememberScript: Script<number> = defineScript(lua("autocomplete/remember"), {
  idempotent: true,
});
export const changeScript: Script<number> = defineScript(lua("autocomplete/change"), {
  idempotent: true,
});
// Not repeated after a lost reply: it would count twice.
export const useScript: Script<number> = defineScript(lua("autocomplete/change"));
export const rankScript: Script<readonly string[]> = defineScript(lua("autocomplete/rank"), {
  idempotent: true,
});
