import { resolve } from "node:path";
import type { ProductName, ProgramName } from "./program.ts";

/** Where a program came from: an environment variable, PATH, the programs folder, or just brought there. */
export type ProgramOrigin = "env" | "path" | "home" | "debian" | "brew";

/** A real program, ready to be started. */
export interface ProvidedProgram {
  readonly name: ProgramName;
  /** What starts it: the executable's absolute path, then arguments that must come first, if any. */
  readonly command: readonly [string, ...string[]];
  /** The environment variable by which another process can be told to use this one. */
  readonly variable: string;
  /** Whose program it is: a `redis-server` may be Valkey's. */
  readonly product: ProductName;
  readonly version: string;
  readonly origin: ProgramOrigin;
}

/** How a program is looked for and brought. */
export interface ProvideOptions {
  /** Environment to look into (`PATH`, `ROPEWAY_*`) and to run tools with. @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Folder that unpacked programs are kept in. @default ROPEWAY_PROGRAMS, else `programs` in ROPEWAY_HOME, else `.ropeway/programs` */
  readonly folder?: string;
  /** Bound of the whole search and download. @default 600_000 */
  readonly timeoutMs?: number;
  /** Ends the search; what was half done is removed. */
  readonly signal?: AbortSignal;
  /** Hears a sentence whenever something takes time or is passed over. @default nothing */
  readonly onProgress?: (sentence: string) => void;
  /** One more way out for the error's sentence, such as "set REDIS_URL to a running server". @default none */
  readonly otherwise?: string;
}

const defaults = { timeoutMs: 600_000 } as const;

/** One call's settings: options with every default filled in, and one signal for abort and time. */
export interface Errand {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The caller's own part of `signal`. */
  readonly callerSignal: AbortSignal | undefined;
  readonly note: (sentence: string) => void;
  readonly otherwise: string | undefined;
}

/** Fills in and validates the options of one call. */
export function errandOf(options: ProvideOptions): Errand {
  const { timeoutMs = defaults.timeoutMs, env = process.env } = options;
  if (!Number.isSafeInteger(timeoutMs) || timeoutMs <= 0) {
    throw new TypeError(`provide: timeoutMs must be a whole number above 0, not ${timeoutMs}`);
  }
  const clock = AbortSignal.timeout(timeoutMs);
  return {
    env,
    folder: resolve(options.folder ?? programsFolder(env)),
    timeoutMs,
    signal: options.signal === undefined ? clock : AbortSignal.any([options.signal, clock]),
    callerSignal: options.signal,
    note: options.onProgress ?? (() => {}),
    otherwise: options.otherwise,
  };
}

/** The folder that programs are unpacked into when no option names one. */
export function programsFolder(env: Readonly<Record<string, string | undefined>>): string {
  return env.ROPEWAY_PROGRAMS || resolve(env.ROPEWAY_HOME || ".ropeway", "programs");
}
