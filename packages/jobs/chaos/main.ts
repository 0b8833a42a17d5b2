/** The full-size run: `npm run chaos -- jobs`. */
import { chaosKill, killLines } from "./kill.ts";
import { chaosMigrate, migrateLines } from "./migrate.ts";
import { chaosPoison, poisonLines } from "./poison.ts";

const report = await chaosKill({
  jobs: Number(process.env.CHAOS_JOBS ?? 100_000),
  workers: 6,
  killEveryMs: 500,
  restarts: 5,
  stops: 5,
  outages: 5,
  jobMs: 20,
  leaseMs: 3_000,
  withinMs: 420_000,
  seed: Number(process.env.CHAOS_SEED ?? 1),
});
const poison = await chaosPoison({ poison: 5, innocent: 500, workers: 2, withinMs: 240_000 });
const migrate = await chaosMigrate({
  moves: Number(process.env.CHAOS_MOVES ?? 20),
  jobsPerMove: 500,
  workers: 3,
  withinMs: 120_000,
});
const lines = [...killLines(report), ...poisonLines(poison), ...migrateLines(migrate)];
process.stdout.write(`${lines.join("\n")}\n`);
process.exitCode = lines.some((line) => line.endsWith("VIOLATED")) ? 1 : 0;
