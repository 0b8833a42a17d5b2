/** Who holds something, in words that an operator understands. */
import { hostname } from "node:os";

/** The default of every `owner` option: `host:pid`. */
export function thisProcess(): string {
  return `${hostname()}:${process.pid}`;
}
