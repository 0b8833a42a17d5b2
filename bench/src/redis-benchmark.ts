/**
 * redis-benchmark as a contender: one connection that always has `inFlight` commands under way, in C.
 * It takes a number of requests and not a time, so each slice asks for as many as the last one's rate
 * makes fit. What it did is checked by the counter that every command must have raised by one.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { createClient } from "@redis/client";
import { ProgramUnavailableError, provide } from "@ropeway/provide";
import { type Session, Unavailable, type Work } from "./bench.ts";
import type { Stage } from "./stage.ts";

/** What it sends. */
export interface OutsideLoad {
  readonly inFlight: number;
  /** Sent once, before the first slice. */
  readonly setUp: readonly string[];
  readonly command: readonly string[];
  /** The key that each command adds one to. */
  readonly counter: string;
}

const FIND_WITHIN_MS = 90_000;
const FIRST_GUESS_PER_MS = 5;
const run = promisify(execFile);

/** Opens it, or throws Unavailable when this machine has none. */
export async function openRedisBenchmark(stage: Stage, load: OutsideLoad): Promise<Session> {
  const [program, ...first] = await findRedisBenchmark();
  const client = createClient({ url: stage.url, RESP: 2 });
  await client.connect();
  await client.sendCommand([...load.setUp]);
  let perMs = FIRST_GUESS_PER_MS;
  return {
    run: async ({ ms }): Promise<Work> => {
      const before = Number(await client.get(load.counter));
      // It only sends whole pipelines.
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
        // With a pipeline its latency is that of the whole pipeline.
        ...(load.inFlight === 1 ? { latency: row.latency } : {}),
      };
    },
    close: async () => client.destroy(),
  };
}

/** The last line of --csv: test, rps, then avg, min, p50, p95, p99 and max in milliseconds. */
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
