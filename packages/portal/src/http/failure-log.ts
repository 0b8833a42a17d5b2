/**
 * Decides which failed requests are logged as errors. A 500 is a defect, and each one is logged. A 503 is a state
 * of Redis or of the load that lasts and fails every request: one line per code and 10 seconds, with the number of
 * failures since the line before it. The access log has the requests.
 */
import type { Problem } from "../contract.ts";

const EVERY_MS = 10_000;
const TEMPORARY = 503;

/** The failures of one port. */
export class FailureLog {
  /** By code, of which there are few. */
  readonly #last = new Map<string, { at: number; unlogged: number }>();

  /** The fields of a log line; undefined if the response is not worth one. */
  line({ status, code }: Problem): { code: string; unlogged?: number } | undefined {
    if (status < 500) return undefined;
    if (status !== TEMPORARY) return { code };
    const now = performance.now();
    const last = this.#last.get(code);
    if (last !== undefined && now - last.at < EVERY_MS) {
      last.unlogged += 1;
      return undefined;
    }
    this.#last.set(code, { at: now, unlogged: 0 });
    return last === undefined || last.unlogged === 0 ? { code } : { code, unlogged: last.unlogged };
  }
}
