/**
 * Measures the cost of core on top of the bare client. It compares a script call and a plain command
 * through `Redis` with the same commands through @redis/client (with its costly timer per command
 * disabled, as in core) and with redis-benchmark, a C program, as the ceiling.
 *
 * Each contender has one connection. The script counts, and replies of one connection arrive in order, so
 * every result is known in advance.
 */
import { createClient } from "@redis/client";
import { connect, defineScript } from "@ropeway/core";
import type { Bar, Bench, Contender, Scenario, Session } from "../bench.ts";
import { closedLoop } from "../closed-loop.ts";
import { openRedisBenchmark } from "../redis-benchmark.ts";
import type { Metric } from "../sample.ts";
import type { Stage } from "../stage.ts";

const OURS = "ropeway";
const BARE = "@redis/client sendCommand";
const TYPED = "@redis/client evalSha";
const OUTSIDE = "redis-benchmark";

const count = defineScript<number>(new URL("../../lua/count.lua", import.meta.url));

/** The calls of one contender. */
interface Caller<R> {
  issue(): Promise<R>;
  close(): Promise<void>;
}

/** A session that keeps calls in flight and compares each reply with `expect()`. */
function session<R>(caller: Caller<R>, inFlight: number, expect: () => R): Session {
  return {
    run: ({ ms }) =>
      closedLoop({
        inFlight,
        ms,
        latency: inFlight === 1,
        issue: caller.issue,
        isRight: (reply) => reply === expect(),
      }),
    close: caller.close,
  };
}

function counting(): () => number {
  let value = 0;
  return () => ++value;
}

async function openClient(stage: Stage) {
  // An explicit `undefined` disables the default timer. Omitting the option does not.
  const commandOptions = { timeout: undefined } as unknown as { timeout?: number };
  const client = createClient({ url: stage.url, RESP: 2, commandOptions });
  await client.connect();
  return client;
}

function keysOf(stage: Stage): [counter: string, payload: string] {
  return [`${stage.prefix}:counter`, `${stage.prefix}:payload`];
}

function scriptContenders(inFlight: number): Contender[] {
  return [
    {
      name: OURS,
      role: "ours",
      open: async (stage) => {
        const redis = await connect(stage.url);
        const keys = keysOf(stage);
        const issue = () => redis.run(count, keys, [stage.text]);
        return session({ issue, close: () => redis.close() }, inFlight, counting());
      },
    },
    {
      name: BARE,
      role: "ceiling",
      open: async (stage) => {
        const client = await openClient(stage);
        await client.scriptLoad(count.source);
        const keys = keysOf(stage);
        const issue = () =>
          client.sendCommand<number>(["EVALSHA", count.sha1, "2", ...keys, stage.text]);
        return session({ issue, close: () => client.close() }, inFlight, counting());
      },
    },
    {
      name: TYPED,
      role: "peer",
      open: async (stage) => {
        const client = await openClient(stage);
        await client.scriptLoad(count.source);
        const options = { keys: keysOf(stage), arguments: [stage.text] };
        const issue = () => client.evalSha(count.sha1, options) as Promise<number>;
        return session({ issue, close: () => client.close() }, inFlight, counting());
      },
    },
    {
      name: OUTSIDE,
      role: "ceiling",
      open: (stage) =>
        openRedisBenchmark(stage, {
          inFlight,
          setUp: ["SCRIPT", "LOAD", count.source],
          command: ["EVALSHA", count.sha1, "2", ...keysOf(stage), stage.text],
          counter: keysOf(stage)[0],
        }),
    },
  ];
}

function sendContenders(inFlight: number): Contender[] {
  return [
    {
      name: OURS,
      role: "ours",
      open: async (stage) => {
        const redis = await connect(stage.url);
        const [, key] = keysOf(stage);
        await redis.send(["SET", key, stage.text]);
        const issue = () => redis.send<string>(["GET", key]);
        return session({ issue, close: () => redis.close() }, inFlight, () => stage.text);
      },
    },
    {
      name: BARE,
      role: "ceiling",
      open: async (stage) => {
        const client = await openClient(stage);
        const [, key] = keysOf(stage);
        await client.sendCommand(["SET", key, stage.text]);
        const issue = () => client.sendCommand<string>(["GET", key]);
        return session({ issue, close: () => client.close() }, inFlight, () => stage.text);
      },
    },
  ];
}

const scenarios: Scenario[] = [
  ...[1, 100, 1000].map(
    (inFlight): Scenario => ({
      id: `core.script.c${inFlight}`,
      title: `One script call, ${inFlight} in flight on one connection`,
      measure: inFlight === 1 ? "latency" : "throughput",
      baseline: BARE,
      contenders: scriptContenders(inFlight),
    }),
  ),
  ...[100, 1000].map(
    (inFlight): Scenario => ({
      id: `core.send.c${inFlight}`,
      title: `One GET, ${inFlight} in flight on one connection`,
      measure: "throughput",
      baseline: BARE,
      contenders: sendContenders(inFlight),
    }),
  ),
];

/** The cost of our script call in time or CPU, relative to the bare client. */
function costBar(inFlight: number, kind: "time" | "cpu"): Bar {
  const scenario = `core.script.c${inFlight}`;
  const metric: Metric = kind === "time" ? "rate" : "clientCpu";
  // Time per operation is the inverse of the rate.
  const [of, to] = kind === "time" ? [BARE, OURS] : [OURS, BARE];
  return {
    id: `core.script.cost.c${inFlight}.${kind}`,
    ratio: (results) => results.ratio({ scenario, metric, of, to })?.median,
    op: "<=",
    target: 1.15,
  };
}

export const bench: Bench = {
  name: "core",
  title: "Core: the cost of a call compared with the bare client",
  payload: 100,
  scenarios,
  bars: [costBar(100, "time"), costBar(100, "cpu"), costBar(1000, "time"), costBar(1000, "cpu")],
};
