/** The Lua scripts. Only the stores run them. */
import { defineScript, type Reply, type Script, type ScriptOptions } from "@ropeway/core";

const lua = (name: string) => new URL(`../lua/${name}.lua`, import.meta.url);

/** The parts that precede the scripts of a queue. Each part builds on the ones before. */
const PARTS = ["lib/queue", "lib/types", "lib/place", "lib/forget", "lib/finish"].map(lua);

function queueScript<T = Reply>(name: string, options: ScriptOptions<T> = {}): Script<T> {
  return defineScript(lua(name), { ...options, prelude: PARTS });
}

/** Some scripts handle their most frequent case before these parts. */
const ADD = { prelude: [lua("lib/plain"), ...PARTS.slice(0, 4)] };

export const addScript: Script = defineScript(lua("add"), ADD);
/** The same script after a lost reply: it finds out whether the call was applied. */
export const addAgainScript: Script = defineScript(lua("add"), { ...ADD, idempotent: true });
export const nextScript: Script = defineScript(lua("next"), {
  prelude: [lua("lib/steady"), ...PARTS],
});
export const moveScript: Script<Moved> = queueScript("move", {
  idempotent: true,
  parse: (reply) => {
    const [moved, stalled, nextMs, outbox] = reply as readonly number[];
    return { moved: moved ?? 0, stalled: stalled ?? 0, nextMs: nextMs ?? -1, outbox: outbox ?? 0 };
  },
});
export const renewScript: Script<Renewed> = defineScript(lua("renew"), {
  idempotent: true,
  parse: (reply) => {
    const [lost, cancelled] = reply as readonly (readonly string[])[];
    return { lost: lost ?? [], cancelled: pairsOf(cancelled ?? []) };
  },
});
export const wakeScript: Script<number> = defineScript(lua("wake"), { idempotent: true });
export const noteScript: Script<number> = defineScript(lua("note"));
export const inspectScript: Script = queueScript("inspect", { idempotent: true });
export const changeScript: Script<string> = queueScript("change");
export const searchScript: Script<readonly Reply[]> = queueScript("search", { idempotent: true });
export const drainScript: Script<readonly number[]> = queueScript("drain");
export const countsScript: Script<readonly (number | string | null)[]> = queueScript("counts", {
  idempotent: true,
});
export const limitsScript: Script<number> = queueScript("limits", { idempotent: true });
export const scheduleScript: Script<number> = queueScript("schedule");
export const childrenScript: Script<number | string> = queueScript("children", {
  idempotent: true,
});
export const childScript: Script<number> = queueScript("child", { idempotent: true });
export const obliterateScript: Script<number> = queueScript("obliterate", { idempotent: true });
/** Pages through the jobs whose parents are in other queues: [cursor, bytes read, message JSON ...]. */
export const orphansScript: Script<readonly string[]> = queueScript("orphans", {
  idempotent: true,
});
export const registerScript: Script<number> = defineScript(lua("register"), { idempotent: true });
export const seedMoveScript: Script<number> = defineScript(lua("seed-move"));
export const seedTakeScript: Script<readonly string[]> = defineScript(lua("seed-take"), {
  idempotent: true,
});
export const seedRenewScript: Script<number> = defineScript(lua("seed-renew"), {
  idempotent: true,
});
export const seedEndScript: Script<number> = defineScript(lua("seed-end"), { idempotent: true });

/** The result of move.lua. */
export interface Moved {
  readonly moved: number;
  readonly stalled: number;
  /** ms until something is due; -1 if nothing is planned. */
  readonly nextMs: number;
  /** The number of messages that wait for delivery to other queues. */
  readonly outbox: number;
}

/** The result of a heartbeat. */
export interface Renewed {
  readonly lost: readonly string[];
  /** id -> reason */
  readonly cancelled: ReadonlyMap<string, string>;
}

/** A flat list of keys and values as a Map. */
export function pairsOf(flat: readonly string[]): Map<string, string> {
  const map = new Map<string, string>();
  for (let i = 0; i + 1 < flat.length; i += 2) map.set(flat[i] as string, flat[i + 1] as string);
  return map;
}
