/** What an examination finds. */

/** One thing that was looked at. */
export interface Finding {
  /** What it is about, such as `target memory`. */
  readonly what: string;
  /** problem: the task would fail or lose data; warning: it may; ok: fine. */
  readonly level: "ok" | "warning" | "problem";
  readonly message: string;
  /** What to do; empty if it is fine. */
  readonly advice: string;
}

/** Nothing to do. */
export function fine(what: string, message: string): Finding {
  return { what, level: "ok", message, advice: "" };
}

/** It may go wrong. */
export function warning(what: string, message: string, advice: string): Finding {
  return { what, level: "warning", message, advice };
}

/** It would go wrong. */
export function problem(what: string, message: string, advice: string): Finding {
  return { what, level: "problem", message, advice };
}
