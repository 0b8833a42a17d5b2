/** Where logs go: standard output belongs to results, so to a file or to standard error. */
import type { Logger } from "@ropeway/core";
import { destination, pino } from "pino";
import type { LogLevel } from "./settings/table.ts";

/** A logger that has to be closed, so that its last lines are written. */
export interface OpenLogger extends Disposable {
  readonly logger: Logger;
}

/** Logs JSON lines to a file, or to standard error if none is named. */
export function openLogger(level: LogLevel, file?: string): OpenLogger {
  const target = destination({ dest: file ?? 2, sync: file === undefined });
  // A disk that is full must not end what is being logged about.
  target.on("error", () => {});
  return {
    logger: pino({ level, base: null }, target),
    [Symbol.dispose]: () => target.flushSync(),
  };
}
