/** The scripts of a mailbox; store.ts is the only caller. */
import { defineScript, type Reply, type Script } from "@ropeway/core";
import { lua } from "../scripts.ts";

// Every send has a number: a second run after a lost reply finds that of the first.
export const sendScript: Script<readonly Reply[]> = defineScript(lua("mailbox/send"), {
  idempotent: true,
});
// A second run hands out other messages; the first ones come back when their lease ends.
export const takeScript: Script<readonly (string | number)[]> = defineScript(lua("mailbox/take"), {
  idempotent: true,
});
export const settleScript: Script<readonly number[]> = defineScript(lua("mailbox/settle"), {
  idempotent: true,
});
// After it, the next receiver has the message under the same attempt, so a second run would take it away. If the
// reply is lost, the message comes back by its lease.
export const undoScript: Script<readonly number[]> = defineScript(lua("mailbox/settle"));
export const pageScript: Script<readonly [number, ...string[]]> = defineScript(
  lua("mailbox/page"),
  {
    idempotent: true,
  },
);
