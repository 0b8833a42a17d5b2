/**
 * redis-benchmark as a contender: a C program with one connection and `inFlight` commands in flight. It
 * takes a number of requests and not a time, so each slice computes the number from the rate of the
 * previous one. Every command increments a counter, which is checked afterwards.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { createClient } from "@redis/client";
import { ProgramUnavailableError, provide } from "@ropeway/provide";
import { type Session, Unavailable, type Work } from "./bench.ts";
import type { Stage } from "./stage.ts";

/** The commands that it sends. */
export interface OutsideLoad {
  readonly inFlight: number;
  /** Sent once, before the first slice. */
  readonly setUp: readonly string[];
  readonly command: readonly string[];
  /** The key that each command increments. */
  readonly counter: string;
}

const FIND_WITHIN_MS = 90_000;
const FIRST_GUESS_PER_MS = 5;
const run = promisify(execFile);

/** Opens a session. Throws Unavailable if redis-benchmark is not available. */
export async function openRedisBenchmark(stage: Stage, load: OutsideLoad): Promise<Session> {
  const [program, ...first] = await findRedisBenchmark();
  const client = createClient({ url: stage.url, RESP: 2 });
  await client.connect();
  await client.sendCommand([...load.setUp]);
  let perMs = FIRST_GUESS_PER_MS;
  return {
    run: async ({ ms }): Promise<Work> => {
      const before = Number(await client.get(load.counter));
      // It sends only full pipelines.
      const operations = Math.ceil((perMs * ms) / load.inFlight) * load.inFlight;
      const options = ["-h", stage.host, "-p", stage.port, "-c", 1, "-P", load.inFlight];
      const args = [...first, ...options, "-n", operations, "--csv", ...load.command].map(String);
      const { stdout } = await run(program, args);
      const row = parseRow(stdout);
      perMs = row.perSecond / 1000;
      return {
        operations,
        checked: Number(await client.get(load.counter)) - before,
        elapsedMs: (operations / row.perSecond) * 1000,
        // With a pipeline it reports the latency of the whole pipeline.
        ...(load.inFlight === 1 ? { latency: row.latency } : {}),
      };
    },
    close: async () => client.destroy(),
  };
}

/** The last line of --csv has test, rps, then avg, min, p50, p95, p99 and max in milliseconds. */
function parseRow(csv: string): { perSecond: number; latency: { p50: number; p99: number } } {
  const fields =
    csv
      .trim()
      .split("\n")
      .at(-1)
      ?.match(/"[^"]*"/g) ?? [];
  const [perSecond = 0, , , p50 = 0, , p99 = 0] = fields
    .slice(-7)
    .map((field) => Number(field.slice(1, -1)));
  if (!(perSecond > 0)) throw new Error(`redis-benchmark printed ${csv}`);
  return { perSecond, latency: { p50: p50 * 1000, p99: p99 * 1000 } };
}

async function findRedisBenchmark(): Promise<readonly [string, ...string[]]> {
  try {
    return (await provide("redis-benchmark", { timeoutMs: FIND_WITHIN_MS })).command;
  } catch (error) {
    if (error instanceof ProgramUnavailableError) throw new Unavailable(error.message);
    throw error;
  }
}
