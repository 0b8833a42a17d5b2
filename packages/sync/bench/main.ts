/**
 * `npm run bench -- sync [--quick] [--only small|1k|elements|zset|lag]`: compares a full synchronisation with native
 * REPLICAOF and `redis-cli --pipe` between the same two servers, and measures the parser, memory, and the lag under
 * load. It prints one line per bar at the end. The exit code is 1 if a bar has FAIL.
 *
 * Contenders take turns in each round. The result is the median of the ratios of all rounds, so that a slow minute of
 * the machine affects both sides.
 */
import { spawnSync } from "node:child_process";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type RedisServer, startRedis } from "@ropeway/testkit";
import { pipe, replicaOf, work } from "./contenders.ts";
import {
  bigZset,
  type DataSet,
  fill,
  hashes,
  kilobyteValues,
  smallKeys,
  writeCommands,
} from "./data.ts";
import { measureLag } from "./lag.ts";
import type { Parsed, Synced } from "./worker.ts";

const quick = process.argv.includes("--quick");
const only = process.argv[process.argv.indexOf("--only") + 1];
const chosen = (part: string) => !process.argv.includes("--only") || part === only;
const scale = quick ? 0.2 : 1;
const ROUNDS = quick ? 1 : 3;
const MIB = 1024 * 1024;
const say = (line: string) => process.stdout.write(`${line}\n`);
const bars: string[] = [];
let maxRssBytes = 0;

build();
// Without the delay of a diskless transfer, which would slow down both sides equally.
const config = ["repl-diskless-sync yes", "repl-diskless-sync-delay 0", "enable-debug-command yes"];
const source = await startRedis({
  config: [...config, "client-output-buffer-limit replica 0 0 0"],
});
const target = await startRedis({ config });
try {
  if (chosen("small")) await full(smallKeys(1_100_000 * scale), 0.85);
  if (chosen("1k")) await full(kilobyteValues(1_000_000 * scale), 1);
  if (chosen("elements")) await elements(hashes(100_000 * scale));
  if (chosen("zset")) await memory(bigZset(10_000_000 * scale), 10_000_000 * scale);
  if (chosen("lag")) await lag();
  if (maxRssBytes > 0) bar("sync.rss", { value: maxRssBytes / MIB, unit: " MiB", most: 256 });
} finally {
  await source.close();
  await target.close();
}
for (const line of bars) say(line);
process.exit(bars.some((line) => line.endsWith("FAIL")) ? 1 : 0);

/** Compares a full synchronisation with native replication, and measures the parser with the same data. */
async function full(data: DataSet, least: number): Promise<void> {
  await prepare(data, data.keys);
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const native = () => replicaOf(source, target);
    const [first, second] = round % 2 === 0 ? [native, ours] : [ours, native];
    const times = [await turn(first), await turn(second)];
    const [nativeMs = 0, ourMs = 0] = round % 2 === 0 ? times : times.reverse();
    ratios.push(nativeMs / ourMs);
    say(
      `${data.title}: REPLICAOF ${rate(data.keys, nativeMs)}, ropeway ${rate(data.keys, ourMs)} keys/s`,
    );
  }
  bar(`sync.full.${data.id}`, { value: median(ratios), unit: "x", least });
  await source.command("CONFIG", "SET", "rdbcompression", "no");
  await source.command("SAVE");
  const parsed = await work<Parsed>({ kind: "parse", file: join(source.dir, "dump.rdb") });
  const megabytes = parsed.bytes / 1e6 / (parsed.ms / 1_000);
  const keys = parsed.keys / (parsed.ms / 1_000) / 1e6;
  say(`parser, ${data.title}: ${keys.toFixed(2)} M keys/s, ${megabytes.toFixed(0)} MB/s`);
  if (data.id === "small") bar("sync.parser.keys", { value: keys, unit: " M/s", least: 1 });
  else bar("sync.parser.bytes", { value: megabytes, unit: " MB/s", least: 200 });

  async function ours(): Promise<number> {
    const { ms, maxRssBytes: rss } = await work<Synced>({
      kind: "sync",
      from: source.url,
      to: target.url,
    });
    maxRssBytes = Math.max(maxRssBytes, rss);
    return ms;
  }
}

/** Compares a full synchronisation with one command per element. */
async function elements(data: DataSet): Promise<void> {
  await prepare(data, data.keys);
  const file = join(tmpdir(), `ropeway-bench-${process.pid}.resp`);
  await writeCommands(file, data.keys);
  try {
    const ratios: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const pipeMs = await turn(() => pipe(file, target));
      const ourMs = await turn(
        async () => (await work<Synced>({ kind: "sync", from: source.url, to: target.url })).ms,
      );
      ratios.push(pipeMs / ourMs);
      say(
        `${data.title}: redis-cli --pipe ${rate(data.keys, pipeMs)}, ropeway ${rate(data.keys, ourMs)} keys/s`,
      );
    }
    bar("sync.full.elements", { value: median(ratios), unit: "x", least: 2 });
  } finally {
    await rm(file, { force: true });
  }
}

/** Copies one value that is larger than the allowed memory. */
async function memory(data: DataSet, members: number): Promise<void> {
  await prepare(data, members);
  await target.command("FLUSHALL");
  const synced = await work<Synced>({ kind: "sync", from: source.url, to: target.url });
  const there = Number(await target.command("ZCARD", "big"));
  if (there !== members) throw new Error(`the target has ${there} of ${members} members`);
  maxRssBytes = Math.max(maxRssBytes, synced.maxRssBytes);
  say(
    `${data.title}: ${(synced.ms / 1_000).toFixed(1)} s, RSS ${(synced.maxRssBytes / MIB).toFixed(0)} MiB`,
  );
}

async function lag(): Promise<void> {
  await source.command("FLUSHALL");
  await target.command("FLUSHALL");
  const { p50Ms, p99Ms, writesPerS, samples } = await measureLag({
    ...{ source, target },
    writesPerS: 50_000,
    ms: quick ? 5_000 : 20_000,
  });
  say(
    `${Math.round(writesPerS)} writes/s: lag p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms (${samples} samples)`,
  );
  bar("sync.lag.p99", { value: p99Ms, unit: " ms", most: 50 });
}

async function prepare(data: DataSet, units: number): Promise<void> {
  await source.command("FLUSHALL");
  await fill(source, data, units);
  await source.command("CONFIG", "SET", "rdbcompression", "yes");
}

/** Runs a contender on an empty target and checks the number of copied keys. */
async function turn(contender: () => Promise<number>): Promise<number> {
  await target.command("FLUSHALL");
  const ms = await contender();
  const [there, here] = [await keysOf(target), await keysOf(source)];
  if (there < here) throw new Error(`the target has ${there} of ${here} keys`);
  return ms;
}

async function keysOf(server: RedisServer): Promise<number> {
  return Number(await server.command("DBSIZE"));
}

interface Claim {
  readonly value: number;
  readonly unit: string;
  readonly least?: number;
  readonly most?: number;
}

function bar(id: string, { value, unit, least, most }: Claim): void {
  const holds = least === undefined ? value <= (most ?? 0) : value >= least;
  const bound = least === undefined ? `<= ${most}` : `>= ${least}`;
  bars.push(`BAR ${id} ${value.toFixed(2)}${unit} ${bound}${unit} ${holds ? "PASS" : "FAIL"}`);
}

function rate(keys: number, ms: number): string {
  return `${Math.round(keys / ms)}k`;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** Builds the package, because the workers run the build. */
function build(): void {
  const root = fileURLToPath(new URL("../../..", import.meta.url));
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const { status } = spawnSync(process.execPath, [tsc, "-b", "packages/sync"], {
    cwd: root,
    stdio: "inherit",
  });
  if (status !== 0) process.exit(2);
}
