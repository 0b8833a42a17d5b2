/** The portal's Lua scripts; the header of each file describes it and its arguments. */
import { defineScript, type Reply, type Script, type ScriptOptions } from "@ropeway/core";

function read<T>(name: string, options: ScriptOptions<T>): Script<T> {
  return defineScript(new URL(`../lua/${name}.lua`, import.meta.url), options);
}

/** A session as it is kept. */
export interface StoredSession {
  readonly user: string;
  readonly generation: number;
  readonly expiresAt: number;
}

export const keepSession: Script<boolean> = read("keep-session", {
  parse: isOne,
  idempotent: true,
});

export const openSession: Script<number> = read("open-session", {
  parse: Number,
  idempotent: true,
});

export const touchSession: Script<StoredSession | undefined> = read("touch-session", {
  parse: (reply) => {
    if (reply === null) return undefined;
    const [user, generation, expiresAt] = reply as readonly string[];
    return { user: String(user), generation: Number(generation), expiresAt: Number(expiresAt) };
  },
  idempotent: true,
});

// Counting an attempt twice only makes the throttle stricter; not counting it would be a security hole.
export const beginLogin: Script<number> = read("begin-login", { parse: Number, idempotent: true });

// Taking a count back twice would be a security hole, so it is not repeated: the count expires by itself.
export const endLogin: Script<void> = read("end-login", { parse: () => undefined });
export const cancelLogin: Script<void> = read("cancel-login", { parse: () => undefined });

function isOne(reply: Reply): boolean {
  return reply === 1;
}
