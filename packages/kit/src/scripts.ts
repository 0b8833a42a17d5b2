/** Lua that several parts share. */
import { defineScript, type Script } from "@ropeway/core";

/** The file of a script of one part. */
export function lua(path: string): URL {
  return new URL(`../lua/${path}.lua`, import.meta.url);
}

export const wakeScript: Script = defineScript(lua("wake"), { idempotent: true });
