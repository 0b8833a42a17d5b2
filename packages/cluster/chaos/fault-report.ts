/** The report of a chaos run, and the invariants that it checks. */
import type { SyncReport } from "./sync-load.ts";

/** The results of a run. */
export interface FaultReport {
  readonly created: number;
  readonly present: number;
  readonly indexed: number;
  readonly running: number;
  readonly growing: number;
  readonly epochs: number;
  readonly wentBack: number;
  readonly inspections: number;
  readonly doubled: number;
  readonly longestGapMs: number;
  readonly takeOverMs: readonly number[];
  readonly faults: number;
  /** The longest time for which a task did not run, and its limit. */
  readonly longestIdleMs: number;
  readonly idleMs: number;
  /** Writers of nodes that were stopped and resumed, and the number of them that a target refused. */
  readonly oldWriters: number;
  readonly refused: number;
  readonly syncs: readonly SyncReport[];
}

/** One line per invariant. */
export function faultLines(report: FaultReport): string[] {
  const line = (name: string, facts: string, holds: boolean) =>
    `INVARIANT cluster.${name} ${facts} ${holds ? "OK" : "VIOLATED"}`;
  const { created, present, indexed, running, growing, epochs, wentBack } = report;
  const { inspections, doubled, longestGapMs } = report;
  return [
    line(
      "none-forgotten",
      `created=${created} present=${present} indexed=${indexed}`,
      present === created && indexed === created,
    ),
    line(
      "immortal-run-again",
      `created=${created} running=${running} growing=${growing}`,
      running === created && growing === created - report.syncs.length,
    ),
    line(
      "idle-bounded",
      `longest-idle-ms=${report.longestIdleMs} bound-ms=${report.idleMs}`,
      report.longestIdleMs <= report.idleMs,
    ),
    line(
      "old-writers-refused",
      `old-writers=${report.oldWriters} refused=${report.refused}`,
      report.refused === report.oldWriters,
    ),
    line("one-writer", `epochs=${epochs} went-back=${wentBack}`, wentBack === 0 && epochs > 0),
    ...report.syncs.flatMap(({ writes, keys, different, writers, wentBack, fullSyncs }, n) => [
      line(`sync-${n}.one-writer`, `epochs=${writers} went-back=${wentBack}`, wentBack === 0),
      line(
        `sync-${n}.exactly-once`,
        `writes=${writes} keys=${keys} different=${different}`,
        writes > 0 && keys > 0 && different === 0,
      ),
      line(`sync-${n}.resumed`, `full-syncs=${fullSyncs}`, fullSyncs === 1),
    ]),
    line(
      "inspections-once",
      `rounds=${inspections} doubled=${doubled} longest-gap-ms=${longestGapMs}`,
      inspections > 0 && doubled === 0,
    ),
  ];
}
