/** What a command's handler is given. */
import type { Readable } from "node:stream";
import type { LoadedSettings } from "./settings/load.ts";
import type { Output } from "./terminal/output.ts";

/** The world outside the command: the process's own, or a test's. */
export interface World {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  /** Aborted by the first Ctrl-C or SIGTERM; the reason is the signal's name. */
  readonly signal: AbortSignal;
}

export interface Context extends World {
  /** The settings in force. They are read and checked on first use. */
  settings(): LoadedSettings;
  readonly output: Output;
  readonly arguments: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
}
