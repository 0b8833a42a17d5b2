/** `npm run bench -- <name>`: runs one bench, prints and writes its results, and prints its bars last. */
import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { barLine, judge } from "./bar.ts";
import type { Bench } from "./bench.ts";
import { benchNames, loadBench } from "./catalogue.ts";
import { type BenchOptions, parseOptions, USAGE } from "./options.ts";
import { plot } from "./plot.ts";
import { publishSection } from "./publish.ts";
import { recordOf } from "./record.ts";
import { reportText } from "./report.ts";
import { Run, type RunPlan } from "./run.ts";

const DOCS = new URL("../../docs/", import.meta.url);
const FULL = { turns: 5, allowance: { sliceMs: 150, endMs: undefined, retryMs: 150_000 } };
/** Less than a minute, including the build and the shutdown. */
const QUICK = { turns: 3, allowance: { sliceMs: 150, endMs: 42_000, retryMs: 8_000 } };

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
    const claims = bench.bars.filter(({ payload = plan.payload }) => payload === plan.payload);
    const verdicts = claims.map((bar) => judge(bar, results));
    const outcome = { bench, plan, redisVersion, results, verdicts };
    const json = `${JSON.stringify(recordOf(outcome), undefined, 2)}\n`;
    const contents = { json, svg: plot(bench.title, results) };
    await write(new URL("../results/", import.meta.url), bench.name, contents);
    if (options.publish) {
      await write(new URL("benchmarks/", DOCS), bench.name, contents);
      await publishSection(new URL("benchmarks.md", DOCS), outcome);
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
  const { rounds, peers, only } = options;
  checkPeers(bench, peers ?? []);
  return {
    ...(options.quick ? QUICK : FULL),
    rounds,
    peers,
    only,
    payload: options.payload ?? bench.payload,
    note: (sentence) => process.stderr.write(`${sentence}\n`),
  };
}

function checkPeers(bench: Bench, asked: readonly string[]): void {
  const contenders = bench.scenarios.flatMap((scenario) => scenario.contenders);
  const known = new Set(contenders.filter(({ role }) => role === "peer").map(({ name }) => name));
  const unknown = asked.find((peer) => !known.has(peer));
  if (unknown === undefined) return;
  throw new RangeError(
    `unknown peer ${JSON.stringify(unknown)}; available: ${[...known].join(", ")}`,
  );
}

async function write(
  home: URL,
  name: string,
  contents: { json: string; svg: string },
): Promise<void> {
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
