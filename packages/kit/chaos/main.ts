/** The full-size run: `npm run chaos -- kit`. */
import { largeGroup } from "./large-group.ts";
import { chaosKit, chaosLines } from "./run.ts";

const lines = chaosLines([
  ...(await chaosKit({
    kills: Number(process.env.CHAOS_KILLS ?? 40),
    killEveryMs: 400,
    redisKills: 3,
    workersPerRole: 4,
    messages: 2_000,
    fileBytes: Number(process.env.CHAOS_FILE_BYTES ?? 1_073_741_824),
    seed: Number(process.env.CHAOS_SEED ?? 1),
  })),
  ...(await largeGroup(Number(process.env.CHAOS_MEMBERS ?? 1_000_000))),
]);
process.stdout.write(`${lines.join("\n")}\n`);
process.exitCode = lines.some((line) => line.endsWith("VIOLATED")) ? 1 : 0;
