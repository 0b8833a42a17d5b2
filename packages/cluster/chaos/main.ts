/** The full-size run: `npm run chaos -- cluster`. */
import { faultLines } from "./fault-report.ts";
import { chaosFaults, type Fault } from "./faults.ts";

const KINDS: readonly Fault[] = [
  "kill-node",
  "kill-portal",
  "stop-node",
  "kill-leader",
  "stop-store",
];
const rounds = Number(process.env.CHAOS_ROUNDS ?? 3);
const report = await chaosFaults({
  tasks: Number(process.env.CHAOS_TASKS ?? 20),
  syncs: Number(process.env.CHAOS_SYNCS ?? 3),
  nodes: 3,
  portals: 3,
  faults: Array.from({ length: rounds * KINDS.length }, (_, n) => KINDS[n % KINDS.length] as Fault),
  leaseMs: 4_000,
  stopMs: 30_000,
  idleMs: 15_000,
  seed: Number(process.env.CHAOS_SEED ?? 1),
});
const lines = faultLines(report);
process.stdout.write(
  `longest take-over of a node's tasks: ${Math.max(0, ...report.takeOverMs)} ms\n`,
);
process.stdout.write(`${lines.join("\n")}\n`);
process.exitCode = lines.some((line) => line.endsWith("VIOLATED")) ? 1 : 0;
