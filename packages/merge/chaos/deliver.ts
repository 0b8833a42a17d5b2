/**
 * Dispatchers die at random while a receiver fails one request in five. Everything that was accepted
 * must arrive, in order within its key, and no two batches of one key may be on the way at a time.
 *
 *   pusher (here) --> Redis --> N dispatcher processes, one killed -9 every now and then --> receiver (here)
 *
 *   npm run chaos -- merge                  20,000 keys, 200,000 items, 4 dispatchers
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@ropeway/core";
import { Inspector, keyOf, MergeQueue } from "@ropeway/merge";
import {
  eventually,
  type RedisServer,
  type Script,
  spawnScript,
  startRedis,
} from "@ropeway/testkit";

const FIXTURE = new URL("../test/dispatcher.fixture.ts", import.meta.url);

/** How much, and how rough. */
export interface ChaosPlan {
  readonly keys: number;
  readonly items: number;
  readonly dispatchers: number;
  readonly killEveryMs: number;
  readonly failRate: number;
  /** Redis itself is killed -9 and started again so often; it then writes every change to disk first. */
  readonly redisKills?: number;
  readonly withinMs: number;
  readonly seed: number;
}

/** What was seen; every list of faults must be empty. */
export interface ChaosReport {
  readonly accepted: number;
  readonly delivered: number;
  readonly duplicates: number;
  readonly requests: number;
  readonly refused: number;
  readonly kills: number;
  readonly lost: number;
  readonly outOfOrder: number;
  readonly overlaps: number;
  readonly deadLetters: number;
}

/** The receiver and its memory: per key, how far its items have been taken. */
class Ledger {
  readonly #next = new Map<number, number>();
  readonly #busy = new Set<number>();
  readonly #random: () => number;
  readonly #failRate: number;
  delivered = 0;
  duplicates = 0;
  requests = 0;
  refused = 0;
  outOfOrder = 0;
  overlaps = 0;

  constructor(failRate: number, random: () => number) {
    this.#failRate = failRate;
    this.#random = random;
  }

  readonly take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const batch = JSON.parse(Buffer.concat(chunks).toString()) as [key: number, seq: number][];
    const key = batch[0]?.[0] ?? -1;
    this.requests += 1;
    if (this.#busy.has(key)) this.overlaps += 1;
    this.#busy.add(key);
    await sleep(this.#random() * 4);
    this.#busy.delete(key);
    if (this.#random() < this.#failRate) {
      this.refused += 1;
      response.statusCode = 500;
    } else {
      for (const [, seq] of batch) this.#note(key, seq);
    }
    response.end();
  };

  #note(key: number, seq: number): void {
    const next = this.#next.get(key) ?? 0;
    if (seq === next) {
      this.#next.set(key, next + 1);
      this.delivered += 1;
    } else if (seq < next) this.duplicates += 1;
    else this.outOfOrder += 1;
  }
}

/** Runs the scenario and counts. */
export async function chaosDeliver(plan: ChaosPlan): Promise<ChaosReport> {
  const random = randomFrom(plan.seed);
  const ledger = new Ledger(plan.failRate, random);
  const receiver = createServer((request, response) => void ledger.take(request, response));
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const server = await startRedis({ appendonly: (plan.redisKills ?? 0) > 0 });
  const redis = await connect(server.url);
  const queue = new MergeQueue(redis, { prefix: "chaos" });
  const start = async () => {
    const script = await spawnScript(FIXTURE, { args: [server.url, "chaos", "3000"] });
    await script.waitForLine(/^ready$/, { withinMs: 60_000 });
    return script;
  };
  const pool: Script[] = await Promise.all(Array.from({ length: plan.dispatchers }, start));
  const state = { over: new AbortController(), kills: 0 };
  const reaper = reap(pool, start, { plan, random, state });
  const restarts = restart(server, plan.redisKills ?? 0);
  const inspector = new Inspector(queue);
  try {
    const accepted = await pushAll(queue, url, plan);
    await restarts;
    await eventually(
      async () => {
        const { keys } = await inspector.stats();
        if (keys > 0 || ledger.delivered < accepted) throw new Error(`${keys} keys are left`);
      },
      { withinMs: plan.withinMs, everyMs: 250 },
    ).catch(() => undefined); // the counts say what is missing
    const { deadLetters } = await inspector.stats();
    const { delivered, duplicates, requests, refused, outOfOrder, overlaps } = ledger;
    const seen = { delivered, duplicates, requests, refused, outOfOrder, overlaps };
    return { accepted, ...seen, kills: state.kills, lost: accepted - delivered, deadLetters };
  } finally {
    state.over.abort();
    await reaper;
    await restarts;
    await Promise.all(pool.map((script) => script.close()));
    await redis.close();
    await server.close();
    receiver.closeAllConnections();
    await new Promise((resolve) => receiver.close(resolve));
  }
}

interface ReapPlan {
  readonly plan: ChaosPlan;
  readonly random: () => number;
  readonly state: { readonly over: AbortController; kills: number };
}

async function reap(
  pool: Script[],
  start: () => Promise<Script>,
  { plan, random, state }: ReapPlan,
): Promise<void> {
  const { signal } = state.over;
  for (;;) {
    const pause = sleep(plan.killEveryMs * (0.5 + random()), undefined, { signal });
    await pause.catch(() => undefined); // the abort ends the pause, and us
    if (signal.aborted) return;
    const victim = Math.floor(random() * pool.length);
    await pool[victim]?.close(); // SIGKILL
    state.kills += 1;
    pool[victim] = await start();
  }
}

async function restart(server: RedisServer, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    await sleep(700);
    await server.kill9();
    await sleep(100);
    await server.start();
  }
}

/** A push whose outcome is unknown is repeated under the same idempotency key: stored once. */
async function pushSurely(queue: MergeQueue, key: string, body: string): Promise<void> {
  const push = () => queue.push(key, body, { idempotencyKey: `${key.length}-${body}` });
  await eventually(push, { withinMs: 60_000 });
}

/** Pushes the items of each key in order, many keys at a time; returns how many were accepted. */
async function pushAll(queue: MergeQueue, url: string, plan: ChaosPlan): Promise<number> {
  const each = plan.items / plan.keys;
  let accepted = 0;
  for (let seq = 0; seq < each; seq++) {
    for (let from = 0; from < plan.keys; from += 500) {
      const burst = Array.from({ length: Math.min(500, plan.keys - from) }, (_, i) => from + i);
      await Promise.all(
        burst.map(async (key) => {
          const name = keyOf({ mergeKey: `k${key}`, method: "POST", url }, "");
          const body = JSON.stringify([key, seq]);
          if (plan.redisKills === undefined) await queue.push(name, body);
          else await pushSurely(queue, name, body);
          accepted += 1;
        }),
      );
    }
  }
  return accepted;
}

/** A small generator, so that a run can be repeated. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The lines that a run ends with. */
export function chaosLines(report: ChaosReport): string[] {
  const { accepted, delivered, lost, outOfOrder, overlaps, deadLetters } = report;
  const verdict = (fine: boolean) => (fine ? "OK" : "VIOLATED");
  return [
    `merge chaos: requests=${report.requests} refused=${report.refused} kills=${report.kills} duplicates=${report.duplicates}`,
    `INVARIANT merge.none-lost accepted=${accepted} completed=${delivered} ${verdict(lost === 0 && deadLetters === 0)}`,
    `INVARIANT merge.order accepted=${accepted} outOfOrder=${outOfOrder} ${verdict(outOfOrder === 0)}`,
    `INVARIANT merge.no-overlap requests=${report.requests} overlaps=${overlaps} ${verdict(overlaps === 0)}`,
  ];
}
