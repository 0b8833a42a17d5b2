/** The script of the semaphore; store.ts is the only caller. */
import { defineScript, type Script } from "@ropeway/core";
import { lua } from "../scripts.ts";
import type { WakeUp } from "../store/wake-list.ts";

/** The reply of turn.lua. */
export interface Turn {
  readonly result: string | number | readonly string[];
  readonly retryMs: number;
  readonly wakeUps: readonly WakeUp[];
}

// Every verb names its token, so that a second run after a lost reply finds what the first one did.
export const turnScript: Script<Turn> = defineScript(lua("semaphore/turn"), {
  idempotent: true,
  parse: (reply) => {
    const [result, retryMs, wakes] = reply as readonly [Turn["result"], number, readonly string[]];
    const wakeUps: WakeUp[] = [];
    for (let i = 0; i + 1 < wakes.length; i += 2) {
      wakeUps.push({ list: wakes[i] as string, message: wakes[i + 1] as string });
    }
    return { result, retryMs, wakeUps };
  },
});
