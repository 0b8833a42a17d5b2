/**
 * Measures the cost of a slice outside the contender's process: commands and CPU time of Redis, and the
 * CPU time that processes outside the run used.
 *
 *   foreign = busy time of all cores + time stolen by the hypervisor
 *             - Redis - the contender and its workers - this process
 */
import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import type { RedisServer } from "@ropeway/testkit";
import { cpuMicros } from "./remote.ts";

/** Counters, in microseconds and calls. */
export interface Reading {
  readonly at: number;
  readonly redisCpu: number;
  readonly harnessCpu: number;
  readonly machineCpu: number;
  readonly commands: ReadonlyMap<string, number>;
}

/** The difference between two readings. */
export interface Passage {
  readonly elapsedMs: number;
  readonly redisCpu: number;
  /** Calls by name, including calls inside scripts. */
  readonly commands: Readonly<Record<string, number>>;
  /** The share of all cores that other processes used, given the CPU time of the contender. */
  foreign(contenderCpu: number): number;
}

const CORES = cpus().length;

/** Reads the counters. */
export async function readMeter(redis: RedisServer): Promise<Reading> {
  const info = String(await redis.command("INFO", "everything"));
  return {
    at: performance.now(),
    redisCpu: parseRedisCpu(info),
    harnessCpu: cpuMicros(),
    machineCpu: machineMicros(),
    commands: parseCommandStats(info),
  };
}

/** Computes the difference between two readings. */
export function passage(before: Reading, after: Reading): Passage {
  const commands: Record<string, number> = {};
  for (const [name, calls] of after.commands) {
    const more = calls - (before.commands.get(name) ?? 0);
    if (more > 0 && name !== "info") commands[name] = more; // the meter itself sends INFO
  }
  const elapsedMs = after.at - before.at;
  const redisCpu = after.redisCpu - before.redisCpu;
  const harnessCpu = after.harnessCpu - before.harnessCpu;
  const machineCpu = after.machineCpu - before.machineCpu;
  return {
    elapsedMs,
    redisCpu,
    commands,
    foreign: (contenderCpu) => {
      const foreign = machineCpu - redisCpu - harnessCpu - contenderCpu;
      return Math.max(0, foreign / (elapsedMs * 1000 * CORES));
    },
  };
}

/** Calls by name, from lines such as `cmdstat_set:calls=5,...`. */
export function parseCommandStats(info: string): Map<string, number> {
  const matches = info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return new Map([...matches].map(([, name, calls]) => [String(name), Number(calls)]));
}

function parseRedisCpu(info: string): number {
  const seconds = (name: string) => {
    const found = new RegExp(`^${name}:([\\d.]+)`, "m").exec(info);
    if (found === null) throw new Error(`INFO has no ${name}`);
    return Number(found[1]);
  };
  return (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e6;
}

function machineMicros(): number {
  if (process.platform !== "linux") {
    const busy = cpus().map(({ times }) => times.user + times.nice + times.sys);
    return busy.reduce((sum, ms) => sum + ms, 0) * 1000;
  }
  // cpu user nice system idle iowait irq softirq steal, in hundredths of a second
  const ticks = readFileSync("/proc/stat", "latin1").split("\n", 1)[0]?.split(/\s+/) ?? [];
  const [user = 0, nice = 0, system = 0, , , , , steal = 0] = ticks.slice(1).map(Number);
  return (user + nice + system + steal) * 10_000;
}
