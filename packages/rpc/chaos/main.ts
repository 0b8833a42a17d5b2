/** The full-size run: `npm run chaos -- rpc`. */
import { chaosKill } from "./kill.ts";
import { longStream } from "./stream.ts";

const LIMIT_MIB = 64;

const verdict = (held: boolean) => (held ? "OK" : "VIOLATED");
const lines: string[] = [];

const { chunks, received, inOrder, grownMib, redisMib } = await longStream(1_000_000);
const whole = received === chunks && inOrder;
lines.push(`INVARIANT rpc.stream-whole accepted=${chunks} completed=${received} ${verdict(whole)}`);
lines.push(
  `INVARIANT rpc.stream-memory reader=${grownMib}MiB redis=${redisMib}MiB ${verdict(
    grownMib < LIMIT_MIB && redisMib < LIMIT_MIB,
  )}`,
);

const report = await chaosKill({
  calls: Number(process.env.CHAOS_CALLS ?? 100_000),
  workers: 4,
  killEveryMs: 300,
  inFlight: 200,
  callMs: 20,
});
const { accepted, completed, wrong, kills, extraRuns } = report;
const none = completed === accepted && wrong === 0;
lines.push(`INVARIANT rpc.none-lost accepted=${accepted} completed=${completed} ${verdict(none)}`);
// A killed worker had at most its 64 slots in hand.
const explained = extraRuns <= kills * 64;
lines.push(`INVARIANT rpc.runs-explained kills=${kills} extra=${extraRuns} ${verdict(explained)}`);

process.stdout.write(`${lines.join("\n")}\n`);
process.exitCode = lines.some((line) => line.endsWith("VIOLATED")) ? 1 : 0;
