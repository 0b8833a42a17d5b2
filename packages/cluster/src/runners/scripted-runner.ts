/**
 * Tasks that follow a script instead of moving data: for trying out a cluster, for tests, and as the
 * smallest example of a runner. With a target they count there behind a fence, so that a test can check
 * that no two runs ever wrote at the same time. A target is left to tasks of an admin (`local`).
 *
 *   {"runMs": 5000}                        ends well after 5 s (FINISH)
 *   {"failAfterMs": 5000}                  ends badly after 5 s (BROKEN)
 *   {"target": "redis://...", "everyMs": 50}   counts until it is stopped
 */
import { connect, InvalidArgumentError, RopewayError } from "@ropeway/core";
import { sleep } from "@ropeway/core/internal";
import type { Run, Runner } from "../runner.ts";
import type { Json } from "../secrets.ts";
import { FencedCounter } from "./store/fenced-counter.ts";

interface Script {
  readonly runMs?: number;
  readonly failAfterMs?: number;
  readonly target?: string;
  readonly everyMs: number;
}

const NAMES = ["runMs", "failAfterMs", "target", "everyMs"];

/** Makes the runner. */
export function scriptedRunner(): Runner {
  return {
    type: "scripted",
    validate: (config, { local } = { local: false }) => scriptOf(config, local) as unknown as Json,
    run,
  };
}

async function run(task: Run): Promise<void> {
  const script = scriptOf(task.config, task.local);
  const { signal } = task;
  await using redis = script.target === undefined ? undefined : await connect(script.target);
  const counter = redis && new FencedCounter(redis, task.taskId, task.epoch);
  await counter?.raise();
  task.phase("COMMANDRUNNING");
  const began = performance.now();
  for (let steps = 1; !signal.aborted; steps++) {
    const count = await counter?.step();
    task.progress({ steps, ...(count === undefined ? {} : { count }) });
    const ranMs = performance.now() - began;
    if (script.failAfterMs !== undefined && ranMs >= script.failAfterMs) {
      throw new RopewayError("SCRIPTED_FAILURE", `the script fails after ${script.failAfterMs} ms`);
    }
    if (script.runMs !== undefined && ranMs >= script.runMs) return;
    await sleep(script.everyMs, signal).catch(() => {}); // the loop checks the signal
  }
}

function scriptOf(config: Json, local: boolean): Script {
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    throw new InvalidArgumentError("config", config, "an object");
  }
  const fields = config as Record<string, Json>;
  for (const name of Object.keys(fields)) {
    if (!NAMES.includes(name)) {
      throw new InvalidArgumentError(`config.${name}`, "***", `one of ${NAMES.join(", ")}`);
    }
  }
  for (const name of ["runMs", "failAfterMs", "everyMs"]) {
    const value = fields[name];
    const usable =
      value === undefined || (typeof value === "number" && value >= 1 && value < 2 ** 31);
    if (!usable)
      throw new InvalidArgumentError(`config.${name}`, value, "a number of ms of at least 1");
  }
  const { target } = fields;
  if (target !== undefined && (typeof target !== "string" || !/^\w+:\/\//.test(target))) {
    throw new InvalidArgumentError("config.target", "***", "the URL of a Redis");
  }
  if (target !== undefined && !local) {
    throw new InvalidArgumentError("config.target", "***", "left to tasks of an admin");
  }
  return { everyMs: 100, ...fields } as Script;
}
