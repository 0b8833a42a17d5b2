/** The full-size run: `npm run chaos -- portal`. */
import { flood } from "./flood.ts";

const GROWTH_MIB = 200;
/** Two pools and the portal's own connections. */
const MOST_CONNECTIONS = 120;
/** Accounts, sessions, login throttles, one queue with one job. */
const MOST_KEYS = 100;
const ADMIN_P99_MS = 2_000;

/** Requests of the viewer. The same number is sent without an account. */
const requests = Number(process.env.CHAOS_REQUESTS ?? 100_000);
const streams = Number(process.env.CHAOS_STREAMS ?? 1_000);
const report = await flood({ requests, streams, slowBodies: 500 });

const verdict = (held: boolean) => (held ? "OK" : "VIOLATED");
const { statuses, memoryMib, connections, keys, adminMs } = report;
const answers = [...statuses].sort(([a], [b]) => a - b).map(([status, n]) => `${status}:${n}`);
const unexplained = [...statuses.keys()].some((status) => status >= 500 && status !== 503);
const keysMade = keys.after - keys.before;
const lines = [
  `FIGURE portal.flood requests=${requests * 2} rate=${report.perSecond}/s answers=${answers.join(",")}`,
  `INVARIANT portal.no-failure ${verdict(!unexplained && (statuses.get(404) ?? 0) > 0)}`,
  `INVARIANT portal.memory before=${memoryMib.before}MiB most=${memoryMib.most}MiB after=${memoryMib.after}MiB ${verdict(memoryMib.most - memoryMib.before < GROWTH_MIB)}`,
  `INVARIANT portal.connections before=${connections.before} most=${connections.most} after=${connections.after} ${verdict(connections.most < MOST_CONNECTIONS && connections.after <= connections.before + 2)}`,
  `INVARIANT portal.keys before=${keys.before} after=${keys.after} ${verdict(keysMade < MOST_KEYS)}`,
  `INVARIANT portal.streams asked=${streams} opened=${report.streamsOpened} refused=${report.streamsRefused} ${verdict(report.streamsOpened === Math.min(32, streams) && report.streamsOpened + report.streamsRefused === streams)}`,
  `INVARIANT portal.slow-bodies sent=500 cut=${report.slowBodiesCut} ${verdict(report.slowBodiesCut === 500)}`,
  `INVARIANT portal.admin idle-p99=${adminMs.idleP99}ms p50=${adminMs.p50}ms p99=${adminMs.p99}ms failures=${report.adminFailures} ${verdict(adminMs.p99 < ADMIN_P99_MS && report.adminFailures === 0)}`,
];
process.stdout.write(`${lines.join("\n")}\n`);
process.exitCode = lines.some((line) => line.endsWith("VIOLATED")) ? 1 : 0;
