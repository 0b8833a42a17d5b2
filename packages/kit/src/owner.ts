/** The name of a holder, for operators. */
import { hostname } from "node:os";

/** The default of every `owner` option: `host:pid`. */
export function thisProcess(): string {
  return `${hostname()}:${process.pid}`;
}
