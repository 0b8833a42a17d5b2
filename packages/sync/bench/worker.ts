/** The worker process of the bench. It runs a full synchronisation, a task, or only the parser. */
import { readFileSync } from "node:fs";
import { RdbReader, SyncTask } from "@ropeway/sync";

/** The work of a worker. */
export type WorkerOrder =
  | { readonly kind: "sync"; readonly from: string; readonly to: string }
  | { readonly kind: "follow"; readonly from: string; readonly to: string }
  | { readonly kind: "parse"; readonly file: string };

/** The result of a full synchronisation. */
export interface Synced {
  readonly ms: number;
  readonly keys: number;
  /** The maximum memory of the process. */
  readonly maxRssBytes: number;
}

/** The result of parsing a file in memory. */
export interface Parsed {
  readonly ms: number;
  readonly keys: number;
  readonly bytes: number;
}

const CHUNK = 64 * 1024;
const PASSES = 5;

process.once("message", async (order: WorkerOrder) => {
  try {
    if (order.kind === "parse") process.send?.(parse(order.file));
    else if (order.kind === "sync") process.send?.(await sync(order.from, order.to));
    else await follow(order.from, order.to);
  } catch (error) {
    process.send?.({ error: (error as Error).stack });
  }
  // After the messages are sent.
  setImmediate(() => process.disconnect());
});

async function sync(from: string, to: string): Promise<Synced> {
  await using task = new SyncTask({ from, to, once: true, restart: true });
  const began = performance.now();
  await task.start();
  const { keys } = await task.finished;
  const ms = performance.now() - began;
  return { ms, keys, maxRssBytes: process.resourceUsage().maxRSS * 1_024 };
}

async function follow(from: string, to: string): Promise<void> {
  await using task = new SyncTask({ from, to });
  const stopped = new Promise((resolve) => process.once("message", resolve));
  task.on("status", (status) => {
    if (status === "COMMANDRUNNING") process.send?.("following");
  });
  await task.start();
  await Promise.race([stopped, task.finished]);
}

/** Parses several times and returns the fastest pass, which other processes disturbed least. */
function parse(file: string): Parsed {
  const bytes = readFileSync(file);
  let best: Parsed = { ms: Number.POSITIVE_INFINITY, keys: 0, bytes: bytes.length };
  for (let pass = 0; pass < PASSES; pass++) {
    const reader = new RdbReader();
    const began = performance.now();
    let keys = 0;
    for (let at = 0; at < bytes.length; at += CHUNK) {
      reader.push(bytes.subarray(at, at + CHUNK));
      for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
        if (entry.kind === "key") keys += 1;
      }
    }
    reader.end();
    const ms = performance.now() - began;
    if (ms < best.ms) best = { ms, keys, bytes: bytes.length };
  }
  return best;
}
