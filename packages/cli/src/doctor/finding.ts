/** What one check found. */
export interface Finding {
  readonly check: string;
  /** warn: it works, but something should change; fail: something accepted can be lost, or nothing works. */
  readonly status: "ok" | "warn" | "fail";
  readonly found: string;
  /** What to change; for anything that is not ok. */
  readonly advice?: string;
}

export function ok(check: string, found: string): Finding {
  return { check, status: "ok", found };
}

export function warn(check: string, found: string, advice: string): Finding {
  return { check, status: "warn", found, advice };
}

export function fail(check: string, found: string, advice: string): Finding {
  return { check, status: "fail", found, advice };
}
