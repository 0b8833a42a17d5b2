/** The full-size run: `npm run chaos -- merge`. */
import { chaosDeliver, chaosLines } from "./deliver.ts";

const report = await chaosDeliver({
  keys: 20_000,
  items: 200_000,
  dispatchers: 4,
  killEveryMs: 2_500,
  failRate: 0.2,
  hostileRate: 0.01,
  sabotageEveryMs: 50,
  withinMs: 420_000,
  seed: Number(process.env.CHAOS_SEED ?? 1),
});
const lines = chaosLines(report);
process.stdout.write(`${lines.join("\n")}\n`);
process.exitCode = lines.some((line) => line.endsWith("VIOLATED")) ? 1 : 0;
