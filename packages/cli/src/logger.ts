/** Where logs go: standard output belongs to results, so to a file or to standard error. */
import type { Logger } from "@ropeway/core";
import { destination, pino } from "pino";
import type { LogLevel } from "./settings/table.ts";

/**
 * Logs JSON lines to a file, or to standard error if none is named. Written at once and not in the
 * background: there is nothing to close, and a crash does not take the lines that explain it along.
 */
export function openLogger(level: LogLevel, file?: string): Logger {
  const target = destination({ dest: file ?? 2, sync: true });
  // A disk that is full must not end what is being logged about.
  target.on("error", () => {});
  return pino({ level, base: null }, target);
}
