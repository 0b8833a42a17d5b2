/** The full-size run: `npm run chaos -- merge`. CHAOS_ITEMS sets the number of items. */
import { chaosDeliver, chaosLines } from "./deliver.ts";

const items = Number(process.env.CHAOS_ITEMS ?? 200_000);
const report = await chaosDeliver({
  keys: Math.ceil(items / 10),
  items,
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
