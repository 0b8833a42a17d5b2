/** The full-size run: `npm run chaos -- jobs`. */
import { chaosKill, killLines } from "./kill.ts";

const report = await chaosKill({
  jobs: Number(process.env.CHAOS_JOBS ?? 100_000),
  workers: 6,
  killEveryMs: 500,
  restarts: 5,
  jobMs: 20,
  leaseMs: 3_000,
  withinMs: 420_000,
  seed: Number(process.env.CHAOS_SEED ?? 1),
});
const lines = killLines(report);
process.stdout.write(`${lines.join("\n")}\n`);
process.exitCode = lines.some((line) => line.endsWith("VIOLATED")) ? 1 : 0;
