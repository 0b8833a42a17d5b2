/**
 * Measures the lag of the target while the source gets many writes. Each write sets a probe key of the source to the
 * current time. A poller reads the key at the target.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { RedisServer } from "@ropeway/testkit";
import { RespWriter } from "../src/resp/writer.ts";
import { Connection } from "../src/wire/connection.ts";
import { startWorker } from "./contenders.ts";

/** The load. */
export interface LagPlan {
  readonly source: RedisServer;
  readonly target: RedisServer;
  readonly writesPerS: number;
  readonly ms: number;
}

/** The measured lag. */
export interface Lag {
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** The actual number of writes per second. */
  readonly writesPerS: number;
  readonly samples: number;
}

const TICK_MS = 5;
const WARM_UP_MS = 2_000;

/** Measures the lag under load. */
export async function measureLag(plan: LagPlan): Promise<Lag> {
  const { source, target } = plan;
  const worker = startWorker({ kind: "follow", from: source.url, to: target.url });
  try {
    await followed(worker);
    await using writing = await connect(source);
    await using reading = await connect(target);
    return await load(plan, writing, reading);
  } finally {
    const gone = once(worker, "exit");
    worker.send("stop");
    await gone;
  }
}

async function followed(worker: ChildProcess): Promise<void> {
  const [message] = (await once(worker, "message")) as [string | { error: string }];
  if (typeof message !== "string") throw new Error(message.error);
}

async function load(plan: LagPlan, writing: Connection, reading: Connection): Promise<Lag> {
  const began = performance.now();
  const lags: number[] = [];
  let written = 0;
  let done = false;
  const poll = async () => {
    let last = "";
    while (!done) {
      const value = String(await reading.call("GET", "probe"));
      if (value !== last && last !== "" && performance.now() - began > WARM_UP_MS) {
        lags.push(performance.now() - Number(value));
      }
      last = value;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  };
  const polling = poll();
  while (performance.now() - began < plan.ms + WARM_UP_MS) {
    const due = Math.floor(((performance.now() - began) * plan.writesPerS) / 1_000) - written;
    if (due > 0) {
      await writing.exchange(writes(written, due), due + 1);
      written += due;
    }
    await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  }
  const writesPerS = (written * 1_000) / (performance.now() - began);
  done = true;
  await polling;
  lags.sort((a, b) => a - b);
  const at = (part: number) => lags[Math.floor(lags.length * part)] ?? Number.NaN;
  return { p50Ms: at(0.5), p99Ms: at(0.99), writesPerS, samples: lags.length };
}

/** Encodes `count` writes, followed by a write of the probe key. */
function writes(from: number, count: number): Buffer[] {
  const writer = new RespWriter();
  for (let n = from; n < from + count; n++) writer.command(["SET", `w:${n % 10_000}`, `v${n}`]);
  writer.command(["SET", "probe", String(performance.now())]);
  return writer.take();
}

function connect({ host, port }: RedisServer): Promise<Connection> {
  return Connection.open({ address: { host, port } });
}
