/** The scripts in ../lua, each documented by its own header. */
import { defineScript, type Reply, type Script } from "@ropeway/core";

function script<T = Reply>(name: string, options?: Parameters<typeof defineScript<T>>[1]) {
  return defineScript<T>(new URL(`../../lua/${name}.lua`, import.meta.url), options);
}

const numbers = (reply: Reply): number[] => (reply as readonly Reply[]).map(Number);

/** Renews a worker's signs of life; gives the lease sets it had lost. */
export const beat: Script<number[]> = script("beat", { parse: numbers, idempotent: true });

/** Removes a worker's signs of life. */
export const leave: Script = script("leave", { idempotent: true });

/** Maps a session and pushes a call of it; see the script for the three answers. */
export const stick: Script<readonly string[]> = script("stick", {
  parse: (reply) => reply as readonly string[],
});

/** Moves calls that were not popped yet. */
export const move: Script<number[]> = script("move", { parse: numbers });

/** Pops everything from many lists; a repetition would lose what the first run popped. */
export const collect: Script<readonly [string, readonly string[]][]> = script("collect", {
  parse: (reply) => reply as unknown as readonly [string, readonly string[]][],
});

/** Moves calls to a worker's in-flight list; if the answer is lost, the lease brings them back. */
export const take: Script<readonly string[]> = script("take", {
  parse: (reply) => reply as readonly string[],
});

/** Ends an at-least-once call: a repetition finds it gone and does nothing. */
export const settle: Script<number> = script("settle", { parse: Number, idempotent: true });

/** Puts a dead worker's calls back. */
export const reclaim: Script<number[]> = script("reclaim", { parse: numbers, idempotent: true });
