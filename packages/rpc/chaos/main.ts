/** The full-size run: `npm run chaos -- rpc`. */
import { chaosFaults, type Fault } from "./faults.ts";
import { chaosGrowth } from "./growth.ts";
import { chaosKill } from "./kill.ts";
import type { LoadReport } from "./load.ts";
import { chaosMigration } from "./migration.ts";
import { longStream } from "./stream.ts";

const LIMIT_MIB = 64;
const HEAP_GROWTH_MIB = 16;
/** The maximum number of temporary timers, such as that of the next expiry. */
const PASSING_RESOURCES = 5;

const verdict = (held: boolean) => (held ? "OK" : "VIOLATED");
const lines = {
  violated: false,
  push(line: string): void {
    this.violated ||= line.endsWith("VIOLATED");
    process.stdout.write(`${line}\n`);
  },
};

const { chunks, received, inOrder, grownMib, redisMib } = await longStream(
  Number(process.env.CHAOS_CHUNKS ?? 1_000_000),
);
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
// A killed worker ran at most 64 calls.
const explained = extraRuns <= kills * 64;
lines.push(`INVARIANT rpc.runs-explained kills=${kills} extra=${extraRuns} ${verdict(explained)}`);

const outages: Fault[] = [500, 1_000, 2_500, 5_000, 10_000].map((ms) => ({ kind: "outage", ms }));
const scenarios: Record<string, readonly Fault[]> = {
  outages,
  stops: [1_000, 3_000, 6_000].map((ms) => ({ kind: "stop", ms })),
  refusals: [500, 2_000, 4_000].map((ms) => ({ kind: "refuse", ms })),
  flushes: [{ kind: "flush" }, { kind: "flush" }, { kind: "flush" }],
};

function tell(name: string, report: LoadReport): void {
  const { calls, ok, doubled, late, unfinished, backwards, broken } = report;
  const counts = `calls=${calls} ok=${ok}`;
  lines.push(
    `INVARIANT rpc.${name}.at-most-once ${counts} doubled=${doubled} ${verdict(doubled === 0)}`,
  );
  lines.push(`INVARIANT rpc.${name}.by-deadline late=${late} ${verdict(late === 0)}`);
  lines.push(`INVARIANT rpc.${name}.epochs backwards=${backwards} ${verdict(backwards === 0)}`);
  lines.push(`INVARIANT rpc.${name}.streams broken=${broken} ${verdict(broken === 0)}`);
  // Calls that Redis has lost cannot run.
  const ended = unfinished === 0 || name === "flushes";
  lines.push(`INVARIANT rpc.${name}.at-least-once unfinished=${unfinished} ${verdict(ended)}`);
}

for (const [name, faults] of Object.entries(scenarios)) tell(name, await chaosFaults(faults, 40));

const migration = await chaosMigration(4_000, { moves: 3, callers: 40 });
const { during, failed } = migration;
tell("migration", migration);
lines.push(
  `INVARIANT rpc.migration.plain calls=${during} failed=${failed} ${verdict(during > 0 && failed === 0)}`,
);

const growth = await chaosGrowth(Number(process.env.CHAOS_GROWTH ?? 1_000_000));
const { answered, refused, before, after } = growth;
const grown = Math.ceil((after.heapBytes - before.heapBytes) / 1024 / 1024);
const same = (["keys", "connections", "listeners", "resources"] as const).map(
  (what) => `${what}=${before[what]}->${after[what]}`,
);
const flat =
  grown < HEAP_GROWTH_MIB &&
  after.keys <= before.keys &&
  after.connections <= before.connections &&
  after.listeners <= before.listeners &&
  after.resources <= before.resources + PASSING_RESOURCES;
lines.push(
  `INVARIANT rpc.growth calls=${answered} bad-names=${refused} heap=+${grown}MiB ${same.join(" ")} ${verdict(flat)}`,
);

process.exitCode = lines.violated ? 1 : 0;
