import { resolve } from "node:path";
import type { ProductName, ProgramName } from "./program.ts";
import { timeoutSignal } from "./timeout-signal.ts";

/** Where a program was found: an environment variable, PATH, or the programs folder; or how it was installed now. */
export type ProgramOrigin = "env" | "path" | "home" | "debian" | "brew";

/** A real program, ready to start. */
export interface ProvidedProgram {
  readonly name: ProgramName;
  /** The command that starts it: the executable's absolute path, then required leading arguments, if any. */
  readonly command: readonly [string, ...string[]];
  /** The environment variable that makes another process use this program. */
  readonly variable: string;
  /** The product of the program: a `redis-server` may be Valkey's. */
  readonly product: ProductName;
  readonly version: string;
  readonly origin: ProgramOrigin;
}

/** How to find or download a program. */
export interface ProvideOptions {
  /** The environment to search (`PATH`, `ROPEWAY_*`) and to run tools with. @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /**
   * The folder for unpacked programs. @default ROPEWAY_PROGRAMS, else `programs` in ROPEWAY_HOME, else
   * `.ropeway/programs`
   */
  readonly folder?: string;
  /** The maximum duration of the whole search and download. @default 600_000 */
  readonly timeoutMs?: number;
  /** Ends the search. Incomplete files are removed. */
  readonly signal?: AbortSignal;
  /** Called with a sentence whenever something takes time or is skipped. @default nothing */
  readonly onProgress?: (sentence: string) => void;
  /** One more solution for the error message, such as "set REDIS_URL to a running server". @default none */
  readonly otherwise?: string;
}

const defaults = { timeoutMs: 600_000 } as const;

/** The settings of one call: options with every default filled in, and one signal for abort and timeout. */
export interface ResolvedProvideOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The caller's own signal. */
  readonly callerSignal: AbortSignal | undefined;
  readonly note: (sentence: string) => void;
  readonly otherwise: string | undefined;
}

/** Fills in and validates the options of one call. */
export function resolveProvideOptions(options: ProvideOptions): ResolvedProvideOptions {
  const { timeoutMs = defaults.timeoutMs, env = process.env } = options;
  if (!Number.isSafeInteger(timeoutMs) || timeoutMs <= 0) {
    throw new TypeError(`provide: timeoutMs must be a whole number above 0, not ${timeoutMs}`);
  }
  const clock = timeoutSignal(timeoutMs);
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

/** The default folder for unpacked programs. */
export function programsFolder(env: Readonly<Record<string, string | undefined>>): string {
  return env.ROPEWAY_PROGRAMS || resolve(env.ROPEWAY_HOME || ".ropeway", "programs");
}
