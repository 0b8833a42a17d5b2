/** All checks, as a table or as JSON. */
import type { Context } from "../context.ts";
import { EXIT } from "../exit-code.ts";
import { stateCell } from "../terminal/colour.ts";
import { checkMachine } from "./machine-checks.ts";
import { checkRedis } from "./redis-checks.ts";

/** Prints what was found; 1 if any of it is a failure. */
export async function examine(context: Context): Promise<number> {
  const { output } = context;
  const findings = [...(await checkMachine(context.settings())), ...(await checkRedis(context))];
  const failed = findings.some(({ status }) => status === "fail");
  output.result({ ok: !failed, checks: findings }, () => {
    const rows = findings.map(({ check, status, found, advice }) => [
      stateCell(status),
      check,
      advice === undefined ? found : `${found}: ${advice}`,
    ]);
    output.table(["STATUS", "CHECK", "FOUND"], rows);
  });
  return failed ? EXIT.failed.code : EXIT.ok.code;
}
