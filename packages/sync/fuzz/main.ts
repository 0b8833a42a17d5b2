// Reads broken RDB files, DUMP payloads, AOF files and RESP streams. The rules for every input:
//
//   1. Reading returns data or throws a RopewayError.
//   2. The result does not depend on the size of the chunks.
//   3. Memory stays below 256 MiB, whatever the input claims.
import { parseArgs } from "node:util";
import { RopewayError } from "@ropeway/core";
import { startRedis } from "@ropeway/testkit";
import { AofReader } from "../src/aof/reader.ts";
import { readDump, sealPayload } from "../src/dump/payload.ts";
import { CommandReader } from "../src/resp/command-reader.ts";
import { ReplyReader } from "../src/resp/reply-reader.ts";
import { decodeValue } from "../src/value/decode.ts";
import { digestOf } from "../src/value/digest.ts";
import { Dice, mutate, outcomeOf } from "../test/rdb/mutant.ts";
import { type Seeds, seedsOf } from "./seeds.ts";

const MEMORY_MIB = 256;
const REPORT_EVERY_MS = 10_000;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: "1" },
  },
});
const cpuMs = Number(values.minutes) * 60_000;

/** Feeds an input to a reader in chunks and returns a summary of the result. */
type Trial = (input: Buffer, chunkOf: () => number) => string;

function feed(input: Buffer, chunkOf: () => number, push: (chunk: Buffer) => void): void {
  for (let at = 0; at < input.length; ) {
    const size = chunkOf();
    push(input.subarray(at, at + size));
    at += size;
  }
}

const trials: Readonly<Record<keyof Seeds, Trial>> = {
  rdb: (input, chunkOf) => {
    const small = (input[input.length >> 1] ?? 0) % 2 === 0;
    const { error, found } = outcomeOf(input, chunkOf, small);
    return error ?? found;
  },
  dump: (input) => {
    if (input.length > 10) sealPayload(input, 0, { length: input.length, version: 12 });
    return digestOf(decodeValue(readDump(input)));
  },
  aof: (input, chunkOf) => {
    const reader = new AofReader("fuzz", { checksum: false, maxElementBytes: 1 << 24 });
    let items = 0;
    feed(input, chunkOf, (chunk) => {
      reader.push(chunk);
      while (reader.next() !== undefined) items++;
    });
    reader.end();
    return String(items);
  },
  commands: (input, chunkOf) => {
    const reader = new CommandReader();
    let items = 0;
    feed(input, chunkOf, (chunk) => {
      reader.push(chunk);
      while (reader.next() !== undefined) items++;
    });
    return `${items} ${reader.offset}`;
  },
  replies: (input, chunkOf) => {
    const reader = new ReplyReader();
    let items = 0;
    feed(input, chunkOf, (chunk) => {
      reader.push(chunk);
      while (reader.next() !== undefined) items++;
    });
    return String(items);
  },
};

/** The result of a trial, or the code of its RopewayError. Other errors are thrown. */
function endOf(trial: Trial, input: Buffer, chunkOf: () => number): string {
  try {
    return trial(input, chunkOf);
  } catch (error) {
    if (error instanceof RopewayError) return `${error.code} at ${error.details.offset}`;
    throw error;
  }
}

function tryOne(seeds: Seeds, seed: number): void {
  const dice = new Dice(seed);
  const kinds = Object.keys(trials) as (keyof Seeds)[];
  // More than half of the inputs are RDB files.
  const kind = dice.below(2) === 0 ? "rdb" : (kinds[dice.below(kinds.length)] as keyof Seeds);
  const originals = seeds[kind];
  const input = mutate(originals[dice.below(originals.length)] as Buffer, dice);
  const whole = endOf(trials[kind], Buffer.from(input), () => Math.max(1, input.length));
  const most = [2, 10, 500, 5000][dice.below(4)] as number;
  const cut = endOf(trials[kind], Buffer.from(input), () => 1 + dice.below(most));
  if (whole === cut) return;
  throw new Error(`${kind}: "${whole}" in one piece, but "${cut}" in chunks`);
}

async function main(): Promise<number> {
  const seeds = await seedsOf(await startRedis());
  let seed = Number(values.seed);
  let reportedAt = performance.now();
  const usedMs = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  };
  for (; usedMs() < cpuMs; seed++) {
    try {
      tryOne(seeds, seed);
    } catch (error) {
      process.stderr.write(`seed ${seed}: ${error instanceof Error ? error.stack : error}\n`);
      return 1;
    }
    const peak = process.resourceUsage().maxRSS / 1024;
    if (peak > MEMORY_MIB) {
      process.stderr.write(`seed ${seed}: ${Math.round(peak)} MiB of memory\n`);
      return 1;
    }
    if (performance.now() - reportedAt < REPORT_EVERY_MS) continue;
    reportedAt = performance.now();
    const used = Math.round(usedMs() / 1000);
    process.stdout.write(`${used} s of CPU time, seed ${seed}, peak ${Math.round(peak)} MiB\n`);
  }
  process.stdout.write(
    `INVARIANT readers: ${seed - Number(values.seed)} broken inputs, no rule broken\n`,
  );
  return 0;
}

process.exitCode = await main();
