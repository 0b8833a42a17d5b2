import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { Context } from "../context.ts";
import { checkMachine } from "../doctor/machine-checks.ts";
import { checkRedis } from "../doctor/redis-checks.ts";
import { EXIT } from "../exit-code.ts";

const COLOURS = { ok: "green", warn: "yellow", fail: "red" } as const;

/** `ropeway doctor`: looks at everything, changes nothing, says what to change. */
export function doctorCommand(): CliCommand {
  return defineCommand(
    "doctor",
    "Check Redis, this machine and the settings, and say what to change",
  )
    .uses("home", "redis.url", "redis.passwordFile", "portal.host", "portal.port", "queue.port")
    .addHelpText("after", "\nExits with 1 if a check fails; warnings do not count.")
    .runs(examine);
}

async function examine(context: Context): Promise<number> {
  const { output } = context;
  const findings = [...(await checkMachine(context.settings())), ...(await checkRedis(context))];
  const failed = findings.some(({ status }) => status === "fail");
  output.result({ ok: !failed, checks: findings }, () => {
    const rows = findings.map(({ check, status, found, advice }) => [
      output.paint(COLOURS[status], status),
      check,
      advice === undefined ? found : `${found}: ${advice}`,
    ]);
    output.table(["", "check", "found"], rows);
  });
  return failed ? EXIT.failed.code : EXIT.ok.code;
}
