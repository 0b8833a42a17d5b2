/** The Lua scripts; store.ts is the only one who runs them. */
import { defineScript, type Reply, type Script } from "@ropeway/core";

const lua = (name: string) => new URL(`../lua/${name}.lua`, import.meta.url);

export const addScript: Script = defineScript(lua("add"), { idempotent: true });
export const nextScript: Script = defineScript(lua("next"));
export const moveScript: Script<Moved> = defineScript(lua("move"), {
  idempotent: true,
  parse: (reply) => {
    const [moved, stalled, nextMs] = reply as readonly number[];
    return { moved: moved ?? 0, stalled: stalled ?? 0, nextMs: nextMs ?? -1 };
  },
});
export const renewScript: Script<Renewed> = defineScript(lua("renew"), {
  idempotent: true,
  parse: (reply) => {
    const [lost, cancelled] = reply as readonly (readonly string[])[];
    return { lost: lost ?? [], cancelled: pairsOf(cancelled ?? []) };
  },
});
export const noteScript: Script<number> = defineScript(lua("note"));
export const inspectScript: Script = defineScript(lua("inspect"), { idempotent: true });
export const changeScript: Script<string> = defineScript(lua("change"));
export const searchScript: Script<readonly Reply[]> = defineScript(lua("search"), {
  idempotent: true,
});
export const drainScript: Script<number> = defineScript(lua("drain"), { idempotent: true });
export const countsScript: Script<readonly Reply[]> = defineScript(lua("counts"), {
  idempotent: true,
});
export const planScript: Script<number> = defineScript(lua("plan"));

/** What move.lua did. */
export interface Moved {
  readonly moved: number;
  readonly stalled: number;
  /** ms until something is due; -1 if nothing is planned. */
  readonly nextMs: number;
}

/** What a heartbeat learned. */
export interface Renewed {
  readonly lost: readonly string[];
  readonly cancelled: ReadonlyMap<string, string>;
}

/** A flat list of keys and values as a Map. */
export function pairsOf(flat: readonly string[]): Map<string, string> {
  const map = new Map<string, string>();
  for (let i = 0; i + 1 < flat.length; i += 2) map.set(flat[i] as string, flat[i + 1] as string);
  return map;
}
