/** The scripts of group chat; store.ts is the only caller. */
import { defineScript, type Script } from "@ropeway/core";
import { lua } from "../scripts.ts";

const parse = Number;

// Every send, and every room, has a number: a second run after a lost reply finds that of the first.
export const sendScript: Script<number> = defineScript(lua("chat/send"), {
  parse,
  idempotent: true,
});
export const createScript: Script<number> = defineScript(lua("chat/create"), {
  parse,
  idempotent: true,
});
export const joinScript: Script<number> = defineScript(lua("chat/join"), {
  parse,
  idempotent: true,
});
const prelude = [lua("chat/trim-read")];
export const acknowledgeScript: Script<readonly [cursor: number, more: number]> = defineScript(
  lua("chat/acknowledge"),
  { prelude, idempotent: true },
);
// A second run finds no member, and changes nothing.
export const leaveScript: Script<readonly [left: number, more: number]> = defineScript(
  lua("chat/leave"),
  { prelude, idempotent: true },
);
export const trimScript: Script<number> = defineScript(lua("chat/trim"), {
  prelude,
  parse,
  idempotent: true,
});
export const noteScript: Script<number> = defineScript(lua("chat/note"), {
  parse,
  idempotent: true,
});
export const placesScript: Script<readonly string[]> = defineScript(lua("chat/places"), {
  idempotent: true,
});
export const pageScript: Script<readonly [number, ...string[]]> = defineScript(lua("chat/page"), {
  idempotent: true,
});
