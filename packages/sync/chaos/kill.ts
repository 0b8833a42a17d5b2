/**
 * Kills the syncer with SIGKILL once a second while clients write INCR, LPUSH, APPEND and transactions to
 * three databases (one for a cluster target), and cuts its connections. At the end both sides must be equal,
 * by resuming: the source's `sync_partial_ok` grows and its `sync_full` does not.
 */
import {
  eventually,
  type RedisServer,
  type Script,
  spawnScript,
  startCluster,
  startProxy,
  startRedis,
} from "@ropeway/testkit";

/** How long and how hard. */
export interface ChaosOptions {
  readonly seconds: number;
  readonly killEveryMs: number;
  readonly target: "standalone" | "cluster";
}

/** What happened. */
export interface ChaosReport {
  readonly target: string;
  readonly writes: number;
  readonly kills: number;
  readonly differing: readonly string[];
  readonly fullSyncs: number;
  readonly partialSyncs: number;
}

const KEYS = 50;
const FIXTURE = new URL("../test/stream.fixture.ts", import.meta.url);
const SOURCE = { config: ["repl-diskless-sync-delay 0", "repl-backlog-size 256mb"] };

/** Runs it. */
export async function chaosKill(options: ChaosOptions): Promise<ChaosReport> {
  await using source = await startRedis(SOURCE);
  await using cluster =
    options.target === "cluster" ? await startCluster({ masters: 3 }) : undefined;
  await using single = cluster === undefined ? await startRedis() : undefined;
  await using proxy = await startProxy(source);
  const to = cluster?.url ?? single?.url ?? "";
  const args = [JSON.stringify({ from: proxy.url, to, name: "chaos" })];
  const run = async (): Promise<Script> => {
    const script = await spawnScript(FIXTURE, { args });
    await script.waitForLine(/status COMMANDRUNNING/, { withinMs: 60_000 });
    return script;
  };
  const dbs = cluster === undefined ? ["0", "1", "2"] : ["0"];
  let script = await run();
  const before = await counts(source);
  const end = performance.now() + options.seconds * 1_000;
  let writes = 0;
  const writing = (async () => {
    for (let round = 0; performance.now() < end; round++) {
      writes += await writeRound(source, round, dbs);
    }
  })();
  let kills = 0;
  while (performance.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, options.killEveryMs));
    if (kills % 3 === 2) proxy.cut();
    await script.kill9();
    kills += 1;
    script = await run();
  }
  await writing;
  const read = async (db: string, argv: readonly [string, ...string[]]) => {
    const server = cluster === undefined ? single : await cluster.nodeOf(argv[1] ?? "");
    if (cluster === undefined) await server?.command("SELECT", db);
    return String(await server?.command(...argv));
  };
  const differing = await eventually(
    async () => {
      const found = await compare(source, dbs, read);
      if (found.length > 0)
        throw new Error(`${found.length} keys differ: ${found.slice(0, 5).join(", ")}`);
      return found;
    },
    { withinMs: 120_000 },
  ).catch(() => compare(source, dbs, read));
  await script.terminate();
  const after = await counts(source);
  return {
    target: options.target,
    writes,
    kills,
    differing,
    fullSyncs: after.full - before.full,
    partialSyncs: after.partial - before.partial,
  };
}

/** The lines that are printed. */
export function chaosLines(report: ChaosReport): string[] {
  const { target, writes, kills, differing, fullSyncs, partialSyncs } = report;
  const line = (holds: boolean, text: string) =>
    `INVARIANT ${text}: ${holds ? "holds" : "VIOLATED"}`;
  return [
    `${target}: ${writes} writes, ${kills} kills, ${partialSyncs} resumes, ${fullSyncs} full synchronisations`,
    line(differing.length === 0, `${target}: every value is equal (${differing.length} differ)`),
    line(
      fullSyncs === 0,
      `${target}: no full synchronisation after the first (sync_full +${fullSyncs})`,
    ),
    line(
      partialSyncs >= kills,
      `${target}: every kill was followed by a resume (sync_partial_ok +${partialSyncs})`,
    ),
  ];
}

async function writeRound(
  source: RedisServer,
  round: number,
  dbs: readonly string[],
): Promise<number> {
  const [a, b] = [round % KEYS, (round * 7) % KEYS];
  const commands: [string, ...string[]][] = [
    ["SELECT", dbs[round % dbs.length] ?? "0"],
    ["INCR", `n${a}`],
    ["LPUSH", `list${b}`, String(round)],
    ["APPEND", `text${a}`, `${round},`],
    ["MULTI"],
    ["INCRBY", `x${a}`, "3"],
    ["DECRBY", `y${b}`, "3"],
    ["EXEC"],
  ];
  await Promise.all(commands.map((command) => source.command(...command)));
  return 5;
}

async function compare(
  source: RedisServer,
  dbs: readonly string[],
  read: (db: string, argv: readonly [string, ...string[]]) => Promise<string>,
): Promise<string[]> {
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
