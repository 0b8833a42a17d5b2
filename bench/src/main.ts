/** `npm run bench -- <name>`: runs one bench, prints and writes what it found, ends with its bars. */
import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { barLine, judge } from "./bar.ts";
import type { Bench } from "./bench.ts";
import { benchNames, loadBench } from "./catalogue.ts";
import { type BenchOptions, parseOptions, USAGE } from "./options.ts";
import { plot } from "./plot.ts";
import { recordOf } from "./record.ts";
import { reportText } from "./report.ts";
import { chosen, Run, type RunPlan } from "./run.ts";

const TURNS = 5;
const SLICE_MS = 150;
const RETRIES = 4;
const RETRIES_WITHIN_MS = 240_000;
/** A quick run spends this on slices; opening and closing contenders comes on top. */
const QUICK_SLICES_MS = 32_000;
const QUICK_RETRIES_WITHIN_MS = 40_000;

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args);
  if (options.name === undefined) {
    process.stdout.write(`${USAGE}\nbenches: ${benchNames().join(", ")}\n`);
    return 0;
  }
  const bench = await loadBench(options.name);
  const plan = planOf(bench, options);
  const run = await Run.start(bench, plan);
  try {
    const redisVersion = await run.redisVersion();
    const results = await run.results();
    const verdicts = bench.bars.map((bar) => judge(bar, results));
    const record = recordOf({ bench, plan, redisVersion, results, verdicts });
    const json = `${JSON.stringify(record, undefined, 2)}\n`;
    await write("../results/", bench.name, { json, svg: plot(bench.title, results) });
    if (options.publish) {
      await write("../../docs/benchmarks/", bench.name, { json, svg: plot(bench.title, results) });
    }
    process.stdout.write(options.json ? json : `\n${reportText(results)}\n\n`);
    const lines = verdicts.map(barLine);
    (options.json ? process.stderr : process.stdout).write(`${lines.join("\n")}\n`);
    return verdicts.some(({ outcome }) => outcome === "FAIL") ? 1 : 0;
  } finally {
    await run.close();
  }
}

function planOf(bench: Bench, options: BenchOptions): RunPlan {
  const { rounds, peers, only, quick } = options;
  checkPeers(bench, peers ?? []);
  const slices = chosen(bench, { peers, only }).reduce(
    (sum, { contenders, weight = 1 }) => sum + contenders.length * weight,
    0,
  );
  const quickMs = Math.floor(QUICK_SLICES_MS / Math.max(1, slices * TURNS * (rounds + 1)));
  return {
    rounds,
    turns: TURNS,
    peers,
    only,
    payload: options.payload ?? bench.payload,
    sliceMs: quick ? Math.min(SLICE_MS, Math.max(40, quickMs)) : SLICE_MS,
    retries: quick ? 1 : RETRIES,
    retryUntil: performance.now() + (quick ? QUICK_RETRIES_WITHIN_MS : RETRIES_WITHIN_MS),
    note: (sentence) => process.stderr.write(`${sentence}\n`),
  };
}

function checkPeers(bench: Bench, asked: readonly string[]): void {
  const contenders = bench.scenarios.flatMap((scenario) => scenario.contenders);
  const known = new Set(contenders.filter(({ role }) => role === "peer").map(({ name }) => name));
  const unknown = asked.find((peer) => !known.has(peer));
  if (unknown === undefined) return;
  throw new RangeError(`no peer ${JSON.stringify(unknown)}; there are: ${[...known].join(", ")}`);
}

async function write(
  folder: string,
  name: string,
  contents: { json: string; svg: string },
): Promise<void> {
  const home = new URL(folder, import.meta.url);
  await mkdir(home, { recursive: true });
  for (const [ending, content] of Object.entries(contents)) {
    const file = new URL(`${name}.${ending}`, home);
    await writeFile(file, content);
    process.stderr.write(`wrote ${fileURLToPath(file)}\n`);
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const { name, message, stack } = error as Error;
  const sentence = name === "TypeError" || name === "RangeError" ? `${message}\n\n${USAGE}` : stack;
  process.stderr.write(`${sentence ?? message}\n`);
  process.exitCode = 2;
}
