/** The portal's Lua scripts; each file's header says what it does and what it is given. */
import { defineScript, type Script } from "@ropeway/core";

const read = <T>(name: string, parse: (reply: unknown) => T): Script<T> =>
  defineScript(new URL(`../lua/${name}.lua`, import.meta.url), { parse });

/** True if the account was created. Not idempotent: a repeat would report that someone else did it. */
export const createFirstAdmin: Script<boolean> = read("create-first-admin", (reply) => reply === 1);
