/** The full-size run: `npm run chaos -- sync`. It builds first, because the syncer runs from the build. */
import { spawnSync } from "node:child_process";
import { chaosKill, chaosLines } from "./kill.ts";

const built = spawnSync("npx", ["tsc", "-b"], { stdio: "inherit" });
if (built.status !== 0) process.exit(1);

const seconds = Number(process.env.CHAOS_SECONDS ?? 60);
const writesPerS = Number(process.env.CHAOS_WRITES_PER_S ?? 20_000);
let violated = false;
for (const target of ["standalone", "cluster"] as const) {
  const report = await chaosKill({ seconds, killEveryMs: 1_000, writesPerS, target });
  const lines = chaosLines(report);
  process.stdout.write(`${lines.join("\n")}\n`);
  violated ||= lines.some((line) => line.endsWith("VIOLATED"));
}
process.exitCode = violated ? 1 : 0;
