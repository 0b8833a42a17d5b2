/**
 * How a running task is shown: one line that is written over on a terminal, one JSON object per second with
 * --json, and one line every ten seconds otherwise.
 */
import type { SyncProgress } from "@ropeway/sync";
import type { Output } from "../terminal/output.ts";

/** The line of --json: these names are fixed. */
export interface ProgressLine {
  readonly phase: string;
  readonly keys: number;
  readonly bytes: number;
  readonly opsPerS: number;
  readonly lagMs: number | null;
  readonly offset: number;
  readonly epoch: number;
}

const PLAIN_EVERY_MS = 10_000;

/** The progress of a migration on a terminal or, line by line, in a log. */
export class Display {
  readonly #output: Output;
  #shownAt = Number.NEGATIVE_INFINITY;

  constructor(output: Output) {
    this.#output = output;
  }

  show(progress: SyncProgress): void {
    if (this.#output.json) {
      this.#output.line(JSON.stringify(jsonLine(progress)));
      return;
    }
    if (this.#output.progress(text(progress))) return;
    if (performance.now() - this.#shownAt < PLAIN_EVERY_MS) return;
    this.#shownAt = performance.now();
    this.#output.note(text(progress));
  }

  /** Removes the line that was written over. */
  end(): void {
    this.#output.progress("");
  }
}

/** The fixed fields of a progress. */
export function jsonLine(progress: SyncProgress): ProgressLine {
  const { phase, keys, bytes, opsPerS, lagMs = null, offset, epoch } = progress;
  return { phase, keys, bytes, opsPerS, lagMs, offset, epoch };
}

function text(progress: SyncProgress): string {
  const { phase, keys, totalKeys, bytes, opsPerS, bytesPerS, lagMs, lagBytes, stalled } = progress;
  const share =
    totalKeys === undefined || totalKeys === 0
      ? ""
      : ` of ${totalKeys} (${Math.min(100, Math.round((keys * 100) / totalKeys))} %)`;
  const parts = [
    phase,
    `${keys} keys${share}`,
    sized(bytes),
    `${opsPerS}/s ${sized(bytesPerS)}/s`,
    ...(phase === "RDBRUNNING" ? [etaOf(progress)] : []),
    ...(lagMs === undefined ? [] : [`lag ${lagMs} ms ${sized(lagBytes)}`]),
    fastShare(progress),
    ...(stalled === undefined ? [] : [`waiting: ${stalled}`]),
  ];
  return parts.filter((part) => part !== "").join("  ");
}

function etaOf({ keys, totalKeys, opsPerS }: SyncProgress): string {
  if (totalKeys === undefined || opsPerS === 0 || totalKeys <= keys) return "";
  return `ETA ${Math.ceil((totalKeys - keys) / opsPerS)} s`;
}

/** How many keys took the fast path. */
function fastShare({ reasons }: SyncProgress): string {
  const fast = (reasons.set ?? 0) + (reasons.restore ?? 0);
  const slow = (reasons.big ?? 0) + (reasons.type ?? 0) + (reasons.policy ?? 0);
  return fast + slow === 0 ? "" : `${Math.round((fast * 100) / (fast + slow))} % fast path`;
}

function sized(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  const units = ["kB", "MB", "GB", "TB"];
  const power = Math.min(units.length, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1_000 ** power).toFixed(1)} ${units[power - 1]}`;
}
