/** The findings of an examination. */

/** One result of an examination. */
export interface Finding {
  /** The subject, such as `target memory`. */
  readonly what: string;
  /** problem: the task would fail or lose data; warning: it may; ok: no problem. */
  readonly level: "ok" | "warning" | "problem";
  readonly message: string;
  /** How to fix it; empty if the level is ok. */
  readonly advice: string;
}

/** A finding of level ok. */
export function fine(what: string, message: string): Finding {
  return { what, level: "ok", message, advice: "" };
}

/** A finding of level warning. */
export function warning(what: string, message: string, advice: string): Finding {
  return { what, level: "warning", message, advice };
}

/** A finding of level problem. */
export function problem(what: string, message: string, advice: string): Finding {
  return { what, level: "problem", message, advice };
}
