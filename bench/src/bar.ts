/** Checks the claims of a bench and prints a line for each: `BAR jobs.process.c100 6.20x >= 5x PASS`. */
import type { Bar } from "./bench.ts";
import type { Results } from "./results.ts";

/** The outcome of a claim. `ratio` is undefined if a contender of the claim did not run. */
export interface Verdict {
  readonly id: string;
  readonly ratio: number | undefined;
  readonly op: Bar["op"];
  readonly target: number;
  readonly outcome: "PASS" | "FAIL" | "SKIP";
}

/** Checks a claim against the results. */
export function judge(bar: Bar, results: Results): Verdict {
  const { id, op, target } = bar;
  const ratio = bar.ratio(results);
  if (ratio === undefined) return { id, ratio, op, target, outcome: "SKIP" };
  return { id, ratio, op, target, outcome: holds(ratio, op, target) ? "PASS" : "FAIL" };
}

/** The line of a claim at the end of a run. */
export function barLine({ id, ratio, op, target, outcome }: Verdict): string {
  const shown = ratio === undefined ? "not measured" : `${showRatio(ratio, op, target)}x`;
  return `BAR ${id} ${shown} ${op} ${target}x ${outcome}`;
}

/** Three digits, or more if rounding to three would cross the target. */
function showRatio(ratio: number, op: Bar["op"], target: number): string {
  const outcome = holds(ratio, op, target);
  for (let digits = 3; digits < 15; digits++) {
    const shown = ratio.toPrecision(digits);
    if (holds(Number(shown), op, target) === outcome) return String(shown);
  }
  return String(ratio);
}

function holds(ratio: number, op: Bar["op"], target: number): boolean {
  return op === ">=" ? ratio >= target : ratio <= target;
}
