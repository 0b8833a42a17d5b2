/**
 * Kills the syncer with SIGKILL a second after it has reached the stream, and every fourth time a second after its
 * start, wherever it is then. Cuts its connections to both sides. Meanwhile clients write INCR, LPUSH, APPEND and
 * transactions to three databases (one for a cluster target). At the end both sides must be equal, by resuming: the
 * source's `sync_partial_ok` grows and its `sync_full` does not.
 */
import {
  eventually,
  type RedisServer,
  startCluster,
  startProxy,
  startRedis,
} from "@ropeway/testkit";
import { Syncer } from "./syncer.ts";

/** How long and how hard. */
export interface ChaosOptions {
  readonly seconds: number;
  readonly killEveryMs: number;
  readonly writesPerS: number;
  readonly target: "standalone" | "cluster";
}

/** What happened. */
export interface ChaosReport {
  readonly target: string;
  readonly seconds: number;
  readonly writes: number;
  readonly kills: number;
  /** Runs that came as far as the stream before they were killed. */
  readonly streamed: number;
  readonly failures: readonly string[];
  readonly differing: readonly string[];
  readonly fullSyncs: number;
  readonly partialSyncs: number;
}

const KEYS = 50;
/** Rounds that are sent together: one round trip for all of them. */
const PIPELINE = 40;
const WRITES_PER_ROUND = 5;
const SOURCE = { config: ["repl-diskless-sync-delay 0", "repl-backlog-size 512mb"] };

type Read = (db: string, argv: readonly [string, ...string[]]) => Promise<string>;

/** Runs it. */
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
    const writing = write(source, { ...options, dbs, end });
    let kills = 0;
    let streamed = 0;
    const failures: string[] = [];
    while (performance.now() < end) {
      if (kills % 4 !== 3) await streaming(syncer, end);
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
    const read: Read = async (db, argv) => {
      const server = cluster === undefined ? single : await cluster.nodeOf(argv[1] ?? "");
      if (cluster === undefined) await server?.command("SELECT", db);
      return String(await server?.command(...argv));
    };
    await caughtUp(source, dbs, read).catch(() => {});
    const differing = await compare(source, dbs, read);
    if (syncer.failure !== undefined) failures.push(syncer.failure);
    await syncer.end("SIGTERM");
    const last = await counts(source);
    return {
      ...{ target: options.target, seconds, writes, kills, streamed, failures, differing },
      fullSyncs: last.full - first.full,
      partialSyncs: last.partial - first.partial,
    };
  } finally {
    await syncer.end("SIGKILL");
  }
}

/** The lines that are printed. */
export function chaosLines(report: ChaosReport): string[] {
  const { target, writes, kills, streamed, differing, fullSyncs, partialSyncs, failures } = report;
  const line = (holds: boolean, text: string) =>
    `INVARIANT ${target}: ${text}: ${holds ? "holds" : "VIOLATED"}`;
  const rate = Math.round(writes / report.seconds);
  return [
    `${target}: ${writes} writes (${rate}/s), ${kills} kills, ${streamed} of these runs had reached the stream`,
    line(differing.length === 0, `every value is equal (${differing.length} differ)`),
    line(fullSyncs === 0, `no full synchronisation after the first (sync_full +${fullSyncs})`),
    line(
      partialSyncs >= streamed && streamed * 2 >= kills,
      `every run resumed (sync_partial_ok +${partialSyncs})`,
    ),
    line(failures.length === 0, `no run gave up (${failures[0] ?? "none did"})`),
  ];
}

/** Writes at the rate until the end; resolves with the number of writes. */
async function write(
  source: RedisServer,
  { writesPerS, dbs, end }: { writesPerS: number; dbs: readonly string[]; end: number },
): Promise<number> {
  const started = performance.now();
  let rounds = 0;
  while (performance.now() < end) {
    const due = ((performance.now() - started) / 1_000) * (writesPerS / WRITES_PER_ROUND);
    if (rounds > due) {
      await pause(2);
      continue;
    }
    const sent: Promise<unknown>[] = [];
    for (const last = rounds + PIPELINE; rounds < last; rounds++) {
      for (const argv of roundOf(rounds, dbs)) sent.push(source.command(...argv));
    }
    await Promise.all(sent);
  }
  return rounds * WRITES_PER_ROUND;
}

function roundOf(round: number, dbs: readonly string[]): [string, ...string[]][] {
  const [a, b] = [round % KEYS, (round * 7) % KEYS];
  return [
    ["SELECT", dbs[round % dbs.length] ?? "0"],
    ["INCR", `n${a}`],
    ["LPUSH", `list${b}`, String(round)],
    ["APPEND", `text${a}`, `${round},`],
    ["MULTI"],
    ["INCRBY", `x${a}`, "3"],
    ["DECRBY", `y${b}`, "3"],
    ["EXEC"],
  ];
}

/** Waits until the syncer applies the stream; a machine with other work needs a while to start it. */
async function streaming(syncer: Syncer, end: number): Promise<void> {
  while (!syncer.reachedStream && syncer.failure === undefined && performance.now() < end) {
    await pause(10);
  }
}

/** Resolves when the last writes have arrived, judged by the counters. */
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
