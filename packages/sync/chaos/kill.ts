/**
 * Kills the syncer with SIGKILL every second and cuts its connections to both sides. A new process may need a second
 * to start, so every other run is killed one second after it has reached the stream, and the rest at any point.
 * Meanwhile a client writes INCR, LPUSH, APPEND and transactions to three databases (one for a cluster target). At the
 * end both sides must be equal, and each run must have resumed: the source's `sync_partial_ok` grows, but not its
 * `sync_full`.
 */
import {
  eventually,
  type RedisServer,
  startCluster,
  startProxy,
  startRedis,
} from "@ropeway/testkit";
import { writeLoad } from "./load.ts";
import { Syncer } from "./syncer.ts";

/** The duration, load and target of a run. */
export interface ChaosOptions {
  readonly seconds: number;
  readonly killEveryMs: number;
  readonly writesPerS: number;
  readonly target: "standalone" | "cluster";
}

/** The results of a run. */
export interface ChaosReport {
  readonly target: string;
  readonly seconds: number;
  readonly writes: number;
  readonly kills: number;
  /** Runs that reached the stream before they were killed. */
  readonly streamed: number;
  /** The time from the last write until the target had all writes. */
  readonly caughtUpMs: number;
  readonly failures: readonly string[];
  readonly differing: readonly string[];
  readonly fullSyncs: number;
  readonly partialSyncs: number;
}

const KEYS = 50;
const SOURCE = { config: ["repl-diskless-sync-delay 0", "repl-backlog-size 512mb"] };

type Read = (db: string, argv: readonly [string, ...string[]]) => Promise<string>;

/** Runs the test. */
export async function chaosKill(options: ChaosOptions): Promise<ChaosReport> {
  await using source = await startRedis(SOURCE);
  await using cluster =
    options.target === "cluster" ? await startCluster({ masters: 3 }) : undefined;
  await using single = cluster === undefined ? await startRedis() : undefined;
  await using before = await startProxy(source);
  await using behind = single === undefined ? undefined : await startProxy(single);
  const task = { from: before.url, to: cluster?.url ?? behind?.url ?? "", name: "chaos" };
  const dbs = cluster === undefined ? ["0", "1", "2"] : ["0"];
  let syncer = new Syncer(task);
  try {
    await eventually(() => assert(syncer.reachedStream), { withinMs: 60_000 });
    const first = await counts(source);
    const started = performance.now();
    const end = started + options.seconds * 1_000;
    const { writesPerS } = options;
    const writing = writeLoad(source, { writesPerS, dbs, keys: KEYS, end });
    let kills = 0;
    let streamed = 0;
    const failures: string[] = [];
    while (performance.now() < end) {
      // A run that fails or hangs is killed too. Its failure is reported.
      if (kills % 2 === 0) await streams(syncer, end).catch(() => {});
      await pause(options.killEveryMs);
      if (kills % 3 === 1) before.cut();
      if (kills % 3 === 2) behind?.cut();
      await syncer.end("SIGKILL");
      kills += 1;
      if (syncer.reachedStream) streamed += 1;
      if (syncer.failure !== undefined) failures.push(syncer.failure);
      syncer = new Syncer(task);
    }
    const writes = await writing;
    const seconds = (performance.now() - started) / 1_000;
    const stopped = performance.now();
    const read: Read = async (db, argv) => {
      const server = cluster === undefined ? single : await cluster.nodeOf(argv[1] ?? "");
      if (cluster === undefined) await server?.command("SELECT", db);
      return String(await server?.command(...argv));
    };
    await caughtUp(source, dbs, read).catch(() => {});
    const caughtUpMs = performance.now() - stopped;
    const differing = await compare(source, dbs, read);
    if (syncer.failure !== undefined) failures.push(syncer.failure);
    await syncer.end("SIGTERM");
    const last = await counts(source);
    return {
      ...{
        target: options.target,
        seconds,
        writes,
        kills,
        streamed,
        failures,
        differing,
        caughtUpMs,
      },
      fullSyncs: last.full - first.full,
      partialSyncs: last.partial - first.partial,
    };
  } finally {
    await syncer.end("SIGKILL");
  }
}

/** The printed lines. */
export function chaosLines(report: ChaosReport): string[] {
  const { target, writes, kills, streamed, differing, fullSyncs, partialSyncs, failures } = report;
  const line = (holds: boolean, text: string) =>
    `INVARIANT ${target}: ${text}: ${holds ? "holds" : "VIOLATED"}`;
  const rate = Math.round(writes / report.seconds);
  return [
    `${target}: ${writes} writes (${rate}/s), ${kills} kills in ${Math.round(report.seconds)} s, ${streamed} of these runs had reached the stream`,
    `${target}: the rest was applied ${(report.caughtUpMs / 1_000).toFixed(1)} s after the last write`,
    line(differing.length === 0, `every value is equal (${differing.length} differ)`),
    line(fullSyncs === 0, `no full synchronisation after the first (sync_full +${fullSyncs})`),
    line(
      partialSyncs >= streamed && streamed > 0,
      `every run that reached the stream resumed (sync_partial_ok +${partialSyncs})`,
    ),
    line(failures.length === 0, `no run gave up (${failures[0] ?? "none did"})`),
  ];
}

/** Resolves when the run has reached the stream or failed. Rejects at `end`. */
function streams(syncer: Syncer, end: number): Promise<void> {
  const withinMs = Math.max(1, end - performance.now());
  return eventually(() => assert(syncer.reachedStream || syncer.failure !== undefined), {
    withinMs,
  });
}

/** Resolves when the counters of both sides are equal. */
async function caughtUp(source: RedisServer, dbs: readonly string[], read: Read): Promise<void> {
  for (const db of dbs) {
    await source.command("SELECT", db);
    for (let i = 0; i < KEYS; i++) {
      const argv = ["GET", `n${i}`] as const;
      const value = String(await source.command(...argv));
      await eventually(async () => assert((await read(db, argv)) === value), {
        withinMs: 180_000,
      });
    }
  }
  await pause(1_000);
}

async function compare(source: RedisServer, dbs: readonly string[], read: Read): Promise<string[]> {
  const differing: string[] = [];
  for (const db of dbs) {
    await source.command("SELECT", db);
    for (let i = 0; i < KEYS; i++) {
      const questions: [string, ...string[]][] = [
        ...["n", "text", "x", "y"].map((name): [string, string] => ["GET", `${name}${i}`]),
        ["LRANGE", `list${i}`, "0", "-1"],
      ];
      for (const argv of questions) {
        if (String(await source.command(...argv)) !== (await read(db, argv))) {
          differing.push(`${db}:${argv[1]}`);
        }
      }
    }
  }
  return differing;
}

async function counts(server: RedisServer): Promise<{ full: number; partial: number }> {
  const info = String(await server.command("INFO", "stats"));
  const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)?.[1] ?? 0);
  return { full: field("sync_full"), partial: field("sync_partial_ok") };
}

function assert(condition: boolean): void {
  if (!condition) throw new Error("not yet");
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
