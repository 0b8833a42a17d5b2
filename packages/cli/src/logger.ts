/** Where logs go: to a file or to standard error, because standard output is for results. */
import type { Logger } from "@ropeway/core";
import { destination, type LoggerOptions, pino } from "pino";
import { RepeatFilter } from "./repeat-filter.ts";
import { RotatingFile } from "./rotating-file.ts";
import type { LogLevel } from "./settings/table.ts";

/** Logs JSON lines to a file that rotates, or to standard error if none is named. */
export function openLogger(level: LogLevel, file?: string): Logger {
  const target = file === undefined ? standardError() : new RotatingFile(file);
  const filter = new RepeatFilter();
  const hooks: LoggerOptions["hooks"] = {
    logMethod(args, write) {
      const [fields, message] = args as unknown[];
      if (filter.passes(fields, message)) write.apply(this, args);
    },
  };
  return pino({ level, base: null, hooks }, target);
}

function standardError(): ReturnType<typeof destination> {
  const target = destination({ dest: 2, sync: true });
  target.on("error", () => {}); // a closed pipe must not end the process
  return target;
}
