/** The scripts in ../../lua, each documented by its own header. Only the store runs them. */
import { defineScript, type Reply, type Script } from "@ropeway/core";

function script<T = Reply>(name: string, options?: Parameters<typeof defineScript<T>>[1]) {
  return defineScript<T>(new URL(`../../lua/${name}.lua`, import.meta.url), options);
}

const numbers = (reply: Reply): number[] => (reply as readonly Reply[]).map(Number);
const strings = (reply: Reply): readonly string[] => reply as readonly string[];

/** Renews a worker's signs of life: {signs that were gone, leases that were lost}. */
export const beat: Script<number[]> = script("beat", { parse: numbers, idempotent: true });

/** Removes a worker's signs of life. */
export const leave: Script = script("leave", { idempotent: true });

/** Maps a session and pushes a call of it; see the script for the three replies. */
export const stick: Script<readonly string[]> = script("stick", { parse: strings });

/** Moves session calls that were not popped yet. */
export const move: Script<number[]> = script("move", { parse: numbers });

/** Removes a call that was not popped yet. */
export const withdraw: Script<number> = script("withdraw", { parse: Number });

/** Removes a call by its id. */
export const withdrawById: Script<number> = script("withdraw_by_id", { parse: Number });

/** Pops everything from many lists. A repetition would lose the elements that the first run popped. */
export const collect: Script<readonly [string, readonly string[]][]> = script("collect", {
  parse: (reply) => reply as unknown as readonly [string, readonly string[]][],
});

/** Reads responses and progress reports without removing them. */
export const peek: Script<readonly [string | null, readonly string[]][]> = script("peek", {
  parse: (reply) => reply as unknown as readonly [string | null, readonly string[]][],
  idempotent: true,
});

/** Removes outdated calls from a request list. */
export const sweep: Script<number> = script("sweep", { parse: Number, idempotent: true });

/** Extends the expiry of lists. */
export const extend: Script<number> = script("extend", { parse: Number, idempotent: true });

/** Moves calls to a worker's in-flight list. If the reply is lost, the lease puts them back. */
export const take: Script<readonly string[]> = script("take", { parse: strings });

/** Ends an at-least-once call. A repetition finds it gone and has no effect. */
export const settle: Script<number> = script("settle", { parse: Number, idempotent: true });

/** Puts a dead worker's calls back. */
export const reclaim: Script<number[]> = script("reclaim", { parse: numbers, idempotent: true });
