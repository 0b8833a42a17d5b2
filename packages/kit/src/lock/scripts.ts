/** The script of the lock; store.ts is the only caller. */
import { defineScript, type Script } from "@ropeway/core";
import { lua } from "../scripts.ts";
import type { WakeUp } from "../store/wake-list.ts";

/** The reply of turn.lua. */
export interface Turn {
  readonly result: string | number | readonly string[];
  /** The time that the holder has left; -1: no end, -2: not held. */
  readonly leftMs: number;
  /** The holder is a program that follows the documented SET NX lock. */
  readonly foreign: boolean;
  readonly wakeUps: readonly WakeUp[];
}

// Every verb names its token, so that a second run after a lost reply finds what the first one did.
export const turnScript: Script<Turn> = defineScript(lua("lock/turn"), {
  idempotent: true,
  parse: (reply) => {
    const [result, leftMs, foreign, wakes] = reply as readonly [
      Turn["result"],
      number,
      string,
      readonly string[],
    ];
    const wakeUps: WakeUp[] = [];
    for (let i = 0; i + 1 < wakes.length; i += 2) {
      wakeUps.push({ list: wakes[i] as string, message: wakes[i + 1] as string });
    }
    return { result, leftMs, foreign: foreign === "1", wakeUps };
  },
});
