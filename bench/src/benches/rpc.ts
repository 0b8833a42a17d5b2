/**
 * Measures one call that sends a small JSON object to a worker in another process and back. Compares ours
 * with Moleculer and NestJS on their Redis transports, BullMQ's waitUntilFinished, the documented Python
 * wire ("seed", a blocking connection per call), and a hand-written loop as the ceiling.
 */
import { randomUUID } from "node:crypto";
import { createClient as createRedisClient } from "@redis/client";
import { connect } from "@ropeway/core";
import { createClient } from "@ropeway/rpc";
import type { Bar, Bench, Contender, Scenario, Session } from "../bench.ts";
import { closedLoop } from "../closed-loop.ts";
import { absolute } from "../results.ts";
import type { Metric } from "../sample.ts";
import type { Stage } from "../stage.ts";
import { typed } from "./rpc/typed-service.ts";

const OURS = "ropeway";
const TYPED = "ropeway, typed";
const CEILING = "raw lists, coalesced";
const MOLECULER = "moleculer";

interface Echo {
  readonly a: number;
  readonly b: string;
}

/** The calls of one contender. */
interface Caller {
  call(params: Echo): Promise<unknown>;
  close(): Promise<unknown>;
}

function session(stage: Stage, inFlight: number, caller: Caller): Session {
  let count = 0;
  return {
    run: ({ ms }) =>
      closedLoop({
        inFlight,
        ms,
        latency: true,
        issue: () => caller.call({ a: ++count, b: stage.text }),
        isRight: (result) => {
          const { a, b } = result as Echo;
          return a > 0 && a <= count && b === stage.text;
        },
      }),
    close: async () => {
      await caller.close();
    },
  };
}

function worker(stage: Stage, name: string): Promise<unknown> {
  const { url, host, port, prefix } = stage;
  const file = new URL(`./rpc/${name}-worker.ts`, import.meta.url);
  return stage.fork(file, { url, host, port, prefix });
}

async function openOurs(stage: Stage): Promise<Caller> {
  await worker(stage, "ropeway");
  const redis = await connect(stage.url);
  const client = await createClient(redis, { ns: stage.prefix });
  await client.call("bench.echo", {});
  await client.discover(); // the client now knows that every worker replies to reply lists
  return {
    call: (params) => client.call("bench.echo", params),
    close: async () => {
      await client.close();
      await redis.close();
    },
  };
}

/** The same with a service definition. Both sides validate parameters and results. */
async function openTyped(stage: Stage): Promise<Caller> {
  await worker(stage, "ropeway");
  const redis = await connect(stage.url);
  const client = await createClient(redis, { ns: stage.prefix });
  const service = client.service(typed);
  await service.echo({ a: 1, b: "" });
  await client.discover();
  return {
    call: (params) => service.echo(params),
    close: async () => {
      await client.close();
      await redis.close();
    },
  };
}

async function openCeiling(stage: Stage): Promise<Caller> {
  await worker(stage, "raw");
  const { popForEver, RawPusher } = await import("./rpc/raw.ts");
  const pending = new Map<number, (result: unknown) => void>();
  const calls = new RawPusher(stage, `${stage.prefix}:calls`);
  const replies = popForEver(stage, `${stage.prefix}:replies`, (elements) => {
    for (const element of elements) {
      const { id, result } = JSON.parse(element) as { id: number; result: unknown };
      pending.get(id)?.(result);
      pending.delete(id);
    }
  });
  let id = 0;
  return {
    call: (params) =>
      new Promise((resolve) => {
        id += 1;
        pending.set(id, resolve);
        calls.push(JSON.stringify({ id, params }));
      }),
    close: async () => {
      calls.close();
      replies.close();
    },
  };
}

async function openMoleculer(stage: Stage): Promise<Caller> {
  await worker(stage, "moleculer");
  const { ServiceBroker } = await import("moleculer");
  const broker = new ServiceBroker({
    namespace: stage.prefix,
    nodeID: "caller",
    transporter: stage.url,
    logger: false,
  });
  await broker.start();
  await broker.waitForServices("bench");
  return { call: (params) => broker.call("bench.echo", params), close: () => broker.stop() };
}

async function openNest(stage: Stage): Promise<Caller> {
  await worker(stage, "nest");
  await import("reflect-metadata");
  const { Logger } = await import("@nestjs/common");
  const { ClientRedis } = await import("@nestjs/microservices");
  const { firstValueFrom } = await import("rxjs");
  const { host, port, prefix } = stage;
  Logger.overrideLogger(false);
  const client = new ClientRedis({ host, port });
  await client.connect();
  return {
    call: (params) => firstValueFrom(client.send(`${prefix}.echo`, params)),
    close: async () => client.close(),
  };
}

async function openBullmq(stage: Stage): Promise<Caller> {
  await worker(stage, "bullmq");
  const { Queue, QueueEvents } = await import("bullmq");
  const { host, port, prefix } = stage;
  const options = { connection: { host, port }, prefix };
  const queue = new Queue("bench", options);
  const events = new QueueEvents("bench", options);
  await events.waitUntilReady();
  return {
    call: async (params) => (await queue.add("echo", params)).waitUntilFinished(events),
    close: () => Promise.all([queue.close(), events.close()]),
  };
}

/** The documented Python wire. Each outstanding call blocks its own connection in BRPOP. */
async function openSeed(stage: Stage, inFlight: number): Promise<Caller> {
  await worker(stage, "seed");
  const open = async () => {
    const client = createRedisClient({ url: stage.url, RESP: 2 });
    await client.connect();
    return client;
  };
  const idle = await Promise.all(Array.from({ length: inFlight }, open));
  const every = [...idle];
  return {
    call: async (params) => {
      const client = idle.pop();
      if (client === undefined) throw new Error("more calls than connections");
      const id = randomUUID();
      const text = JSON.stringify({ id, version: "2", method: "echo", params });
      await client.sendCommand(["LPUSH", `/api/${stage.prefix}/request/bench`, text]);
      const key = `/api/${stage.prefix}/response/${id}`;
      const [, answer] = await client.sendCommand<[string, string]>(["BRPOP", key, "10"]);
      idle.push(client);
      return (JSON.parse(answer) as { result: unknown }).result;
    },
    close: () => Promise.all(every.map((client) => client.close())),
  };
}

function contenders(inFlight: number): Contender[] {
  const contender = (
    name: string,
    role: Contender["role"],
    open: (stage: Stage) => Promise<Caller>,
  ): Contender => ({
    name,
    role,
    open: async (stage) => session(stage, inFlight, await open(stage)),
  });
  return [
    contender(OURS, "ours", openOurs),
    contender(TYPED, "ours", openTyped),
    contender(CEILING, "ceiling", openCeiling),
    contender(MOLECULER, "peer", openMoleculer),
    contender("nestjs", "peer", openNest),
    contender("bullmq", "peer", openBullmq),
    contender("seed", "peer", (stage) => openSeed(stage, inFlight)),
  ];
}

const scenarios: Scenario[] = [1, 100, 512, 1000].map((inFlight) => ({
  id: `rpc.call.c${inFlight}`,
  title: `One call and its response, ${inFlight} in flight`,
  measure: inFlight === 1 ? "latency" : "throughput",
  // With 1 in flight, a standard slice has too few calls for percentiles and for the JIT compiler. With
  // many in flight, it would consist mostly of its start and end.
  weight: inFlight === 1 ? 5 : 3,
  baseline: CEILING,
  contenders:
    inFlight === 512
      ? contenders(inFlight).filter(({ role }) => role !== "peer")
      : contenders(inFlight),
}));

interface Claim extends Pick<Bar, "id" | "op" | "target"> {
  readonly inFlight: number;
  readonly metric: Metric;
  readonly of?: string;
  readonly to: string;
}

function bar({ id, op, target, inFlight, metric, of = OURS, to }: Claim): Bar {
  const scenario = `rpc.call.c${inFlight}`;
  const ratio: Bar["ratio"] = (results) => results.ratio({ scenario, metric, of, to })?.median;
  return { id, op, target, ratio };
}

/** The number of commands per call, instead of a ratio. */
const commands: Bar = {
  id: "rpc.commands.c512",
  op: "<=",
  target: 0.05,
  ratio: (results) => {
    const found = results.scenarios.find(({ scenario }) => scenario.id === "rpc.call.c512");
    const ours = found?.standings.find(({ name }) => name === OURS);
    return ours && absolute(ours, "commands")?.median;
  },
};

export const bench: Bench = {
  name: "rpc",
  title: "Calls: one request and its response",
  payload: 16,
  scenarios,
  bars: [
    commands,
    ...[1, 100, 1000].map((inFlight) =>
      bar({
        id: `rpc.c${inFlight}.typed`,
        op: ">=",
        target: 0.9,
        inFlight,
        metric: "rate",
        of: TYPED,
        to: OURS,
      }),
    ),
    bar({
      id: "rpc.c1000.moleculer",
      op: ">=",
      target: 6.5,
      inFlight: 1000,
      metric: "rate",
      to: MOLECULER,
    }),
    bar({
      id: "rpc.c1000.ceiling",
      op: ">=",
      target: 0.75,
      inFlight: 1000,
      metric: "rate",
      to: CEILING,
    }),
    bar({
      id: "rpc.c100.moleculer",
      op: ">=",
      target: 3.5,
      inFlight: 100,
      metric: "rate",
      to: MOLECULER,
    }),
    bar({
      id: "rpc.c100.ceiling",
      op: ">=",
      target: 0.85,
      inFlight: 100,
      metric: "rate",
      to: CEILING,
    }),
    bar({
      id: "rpc.c1.p50.ceiling",
      op: "<=",
      target: 1.15,
      inFlight: 1,
      metric: "p50",
      to: CEILING,
    }),
    bar({
      id: "rpc.c1.p99.ceiling",
      op: "<=",
      target: 1.2,
      inFlight: 1,
      metric: "p99",
      to: CEILING,
    }),
  ],
};
