/** The full-size run: `npm run chaos -- sync`. */
import { chaosKill, chaosLines } from "./kill.ts";

const seconds = Number(process.env.CHAOS_SECONDS ?? 60);
let violated = false;
for (const target of ["standalone", "cluster"] as const) {
  const lines = chaosLines(await chaosKill({ seconds, killEveryMs: 1_000, target }));
  process.stdout.write(`${lines.join("\n")}\n`);
  violated ||= lines.some((line) => line.endsWith("VIOLATED"));
}
process.exitCode = violated ? 1 : 0;
