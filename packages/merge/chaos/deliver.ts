/**
 * Kills dispatchers at random while an endpoint fails one request in five and misbehaves in others. Every accepted
 * item must arrive, in order within its key, and no two batches of one key may be in flight at the same time. A
 * request is no longer in flight after its connection is closed or its timeout has passed. A suspended endpoint can
 * read such a request together with its retry. It is counted as late.
 *
 *   pusher (here) --> Redis --> N dispatcher processes, one killed -9 at intervals --> endpoint (here)
 *                       ^
 *                       '-- out of memory at intervals; other keys are deleted and replayed at random (saboteur.ts)
 *
 *   npm run chaos -- merge                  20,000 keys, 200,000 items, 4 dispatchers
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { connect } from "@ropeway/core";
import { Inspector, keyOf, MergeQueue } from "@ropeway/merge";
import {
  eventually,
  type RedisServer,
  type Script,
  spawnScript,
  startRedis,
} from "@ropeway/testkit";
import { Saboteur } from "./saboteur.ts";

/** The same as in the fixture. */
const ATTEMPTS = 200;
const LEASE_MS = 3_000;
const TIMEOUT_MS = LEASE_MS - 1_000;
const FIXTURE = new URL("../test/dispatcher.fixture.ts", import.meta.url);

/** The number of items and faults. */
export interface ChaosPlan {
  readonly keys: number;
  readonly items: number;
  readonly dispatchers: number;
  readonly killEveryMs: number;
  readonly failRate: number;
  /** The share of requests that an endpoint upgrades, resets, drips, leaves open or responds to with garbage. */
  readonly hostileRate?: number;
  /** The mean interval of sabotages: Redis out of memory, or random operations on other keys. */
  readonly sabotageEveryMs?: number;
  /** The number of times that Redis is killed and restarted. It then writes every change to disk first. */
  readonly redisKills?: number;
  readonly withinMs: number;
  readonly seed: number;
}

/** The results of a run. Every list of faults must be empty. */
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
  /** Requests that overlapped another request of their key after their timeout or disconnect. */
  readonly late: number;
  readonly deadLetters: number;
  /** The maximum number of requests with one webhook-id. */
  readonly mostAttempts: number;
  readonly sabotages: number;
}

/** The receiver, and its record of the items that arrived for each key. */
class Ledger {
  readonly #next = new Map<number, number>();
  readonly #busy = new Map<number, IncomingMessage>();
  readonly #random: () => number;
  readonly #plan: Pick<ChaosPlan, "failRate" | "hostileRate">;
  readonly #attempts = new Map<string, number>();
  mostAttempts = 0;
  delivered = 0;
  duplicates = 0;
  requests = 0;
  refused = 0;
  outOfOrder = 0;
  overlaps = 0;
  late = 0;

  constructor(plan: Pick<ChaosPlan, "failRate" | "hostileRate">, random: () => number) {
    this.#plan = plan;
    this.#random = random;
  }

  readonly take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    if (request.url !== "/") {
      response.statusCode = 500; // the saboteur's keys always fail
      response.end();
      return;
    }
    this.#count(String(request.headers["webhook-id"]));
    const batch = JSON.parse(Buffer.concat(chunks).toString()) as [key: number, seq: number][];
    const key = batch[0]?.[0] ?? -1;
    this.requests += 1;
    const other = this.#busy.get(key);
    if (other !== undefined) void this.#meet([other, request]);
    this.#busy.set(key, request);
    await sleep(this.#random() * 4);
    if (this.#busy.get(key) === request) this.#busy.delete(key);
    const { failRate, hostileRate = 0 } = this.#plan;
    const misdeed = this.#random() < hostileRate ? this.#misdeed() : undefined;
    if (misdeed === "drip") {
      for (const [, seq] of batch) this.#note(key, seq); // the delivery succeeds by its status
      drip(response);
    } else if (misdeed !== undefined) {
      this.refused += 1;
      misbehave(misdeed, response);
    } else if (this.#random() < failRate) {
      this.refused += 1;
      response.statusCode = this.#random() < 0.1 ? 429 : 500;
      response.end();
    } else {
      for (const [, seq] of batch) this.#note(key, seq);
      response.end();
    }
  };

  /** Counts two simultaneous requests of one key. This is allowed only if one has timed out or disconnected. */
  async #meet(requests: readonly IncomingMessage[]): Promise<void> {
    const at = Date.now();
    for (let turns = 0; turns < 2; turns++) await nextTurn(); // reads the end of a connection if it has arrived
    if (requests.some((request) => isGivenUp(request, at))) this.late += 1;
    else this.overlaps += 1;
  }

  #misdeed(): Misdeed {
    return MISDEEDS[Math.floor(this.#random() * MISDEEDS.length)] ?? "reset";
  }

  #count(id: string): void {
    const count = (this.#attempts.get(id) ?? 0) + 1;
    this.#attempts.set(id, count);
    this.mostAttempts = Math.max(this.mostAttempts, count);
  }

  #note(key: number, seq: number): void {
    const next = this.#next.get(key) ?? 0;
    if (seq === next) {
      this.#next.set(key, next + 1);
      this.delivered += 1;
    } else if (seq < next) this.duplicates += 1;
    else this.outOfOrder += 1;
  }
}

/** Whether the sender has disconnected or timed out. The timestamp has a resolution of one second. */
function isGivenUp({ socket, headers }: IncomingMessage, at: number): boolean {
  const isClosed = socket.destroyed || socket.readableEnded;
  return isClosed || at - Number(headers["webhook-timestamp"]) * 1_000 >= TIMEOUT_MS;
}

const MISDEEDS = ["upgrade", "reset", "drip", "hang", "garbage"] as const;
type Misdeed = (typeof MISDEEDS)[number];

function misbehave(misdeed: Misdeed, response: ServerResponse): void {
  const { socket } = response;
  if (misdeed === "reset") socket?.resetAndDestroy();
  if (misdeed === "garbage") socket?.write("\0garbage\r\n\r\n");
  if (misdeed === "upgrade") {
    socket?.write("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n");
  }
}

/** Sends an endless body byte by byte. */
function drip(response: ServerResponse): void {
  response.writeHead(200, { "content-length": "1000000" });
  const timer = setInterval(() => response.write("x"), 50);
  response.on("close", () => clearInterval(timer));
}

/** Runs the test. */
export async function chaosDeliver(plan: ChaosPlan): Promise<ChaosReport> {
  const random = randomFrom(plan.seed);
  const ledger = new Ledger(plan, random);
  const receiver = createServer((request, response) => void ledger.take(request, response));
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const server = await startRedis({ appendonly: (plan.redisKills ?? 0) > 0 });
  const redis = await connect(server.url);
  const queue = new MergeQueue(redis, { prefix: "chaos" });
  const start = async () => {
    const script = await spawnScript(FIXTURE, { args: [server.url, "chaos", String(LEASE_MS)] });
    await script.waitForLine(/^ready$/, { withinMs: 60_000 });
    return script;
  };
  const pool: Script[] = await Promise.all(Array.from({ length: plan.dispatchers }, start));
  const state = { over: new AbortController(), kills: 0 };
  const reaper = reap(pool, start, { plan, random, state });
  const restarts = restart(server, plan.redisKills ?? 0);
  const saboteur = new Saboteur({ queue, server, random, url: `${url}sabotage` });
  saboteur.start(plan.sabotageEveryMs);
  const inspector = new Inspector(queue);
  try {
    const accepted = await pushAll(queue, url, plan);
    await restarts;
    await saboteur.close();
    await eventually(
      async () => {
        const { keys } = await inspector.stats();
        if (keys > 0 || ledger.delivered < accepted) throw new Error(`${keys} keys are left`);
      },
      { withinMs: plan.withinMs, everyMs: 250 },
    ).catch(() => undefined); // the counts show what is missing
    const { deadLetters } = await inspector.stats();
    const { delivered, duplicates, requests, refused, outOfOrder, mostAttempts } = ledger;
    const { overlaps, late } = ledger;
    const seen = { delivered, duplicates, requests, refused, outOfOrder, mostAttempts };
    const { sabotages } = saboteur;
    const lost = accepted - delivered;
    return { accepted, ...seen, overlaps, late, kills: state.kills, lost, deadLetters, sabotages };
  } finally {
    await saboteur.close();
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
    await pause.catch(() => undefined); // the abort ends the pause and the loop
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

/** Repeats a push with unknown outcome under the same idempotency key, so that it is stored once. */
async function pushSurely(queue: MergeQueue, key: string, body: string): Promise<void> {
  const push = () => queue.push(key, body, { idempotencyKey: `${key.length}-${body}` });
  await eventually(push, { withinMs: 60_000 });
}

/** Pushes the items of each key in order, many keys at a time. Returns the number of accepted items. */
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
          const isSafe = plan.redisKills === undefined && plan.sabotageEveryMs === undefined;
          if (isSafe) await queue.push(name, body);
          else await pushSurely(queue, name, body);
          accepted += 1;
        }),
      );
    }
  }
  return accepted;
}

/** Repeatable random numbers. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The last lines of a run. */
export function chaosLines(report: ChaosReport): string[] {
  const { accepted, delivered, lost, outOfOrder, overlaps, deadLetters } = report;
  const verdict = (fine: boolean) => (fine ? "OK" : "VIOLATED");
  return [
    `merge chaos: requests=${report.requests} refused=${report.refused} kills=${report.kills} sabotages=${report.sabotages} duplicates=${report.duplicates}`,
    `INVARIANT merge.none-lost accepted=${accepted} completed=${delivered} ${verdict(lost === 0 && deadLetters === 0)}`,
    `INVARIANT merge.order accepted=${accepted} outOfOrder=${outOfOrder} ${verdict(outOfOrder === 0)}`,
    `INVARIANT merge.no-overlap requests=${report.requests} overlaps=${overlaps} late=${report.late} ${verdict(overlaps === 0)}`,
    `INVARIANT merge.attempts most=${report.mostAttempts} plan=${ATTEMPTS} ${verdict(report.mostAttempts <= ATTEMPTS)}`,
  ];
}
