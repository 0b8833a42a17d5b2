/**
 * Random lives of locks and semaphores: clients acquire, release, pause past their lease, lose their
 * connection or are abandoned, and documented programs with skewed clocks acquire as well. After every step
 * at most `limit` of all of them believe that they hold it, and fences rise in the order of acquisition.
 */
import { connect, type Redis } from "@ropeway/core";
import { eventually, type FaultProxy, startProxy } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { type HeldLock, Lock } from "../src/lock/index.ts";
import { type Permit, Semaphore } from "../src/semaphore/index.ts";

const { server } = await redisForFile();
const CLIENTS = 4;
const TTL_MS = 60;

const proxies: FaultProxy[] = [];
const clients: Redis[] = [];
for (let i = 0; i < CLIENTS; i++) {
  const proxy = await startProxy(server);
  afterAll(() => proxy.close());
  const redis = await connect(proxy.url, { offlineWaitMs: 300 });
  afterAll(() => redis.close());
  proxies.push(proxy);
  clients.push(redis);
}

type Held = HeldLock | Permit;
type Step =
  | {
      readonly do: "acquire";
      readonly by: number;
      readonly waitMs: number;
      readonly renew: boolean;
    }
  | { readonly do: "release"; readonly by: number }
  | { readonly do: "cut"; readonly by: number }
  | { readonly do: "pause"; readonly ms: number }
  | { readonly do: "intrude" };

const by = fc.integer({ min: 0, max: CLIENTS - 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("acquire" as const),
      by,
      waitMs: fc.constantFrom(0, 5, 40, 150),
      renew: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("release" as const), by }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cut" as const), by }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("pause" as const), ms: fc.constantFrom(1, 10, 80) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("intrude" as const) }),
  },
);

let run = 0;

/** Somebody who believes to hold something. */
interface Believer {
  readonly held: boolean;
}

/** A program that believes what it acquired for a time, from before it asked. */
function believer(forMs: number, since: number): Believer {
  return {
    get held() {
      return performance.now() < since + forMs;
    },
  };
}

/** acquire_lock_with_timeout of the document, once. */
async function documentedLock(name: string): Promise<Believer | undefined> {
  const since = performance.now();
  const set = await server.command("SET", `lock:${name}`, "uuid", "NX", "PX", "30");
  return set === "OK" ? believer(30, since) : undefined;
}

/** acquire_semaphore_with_lock of the document, once, with a clock that is ahead or behind. */
async function documentedPermit(
  name: string,
  { limit, skewMs }: { readonly limit: number; readonly skewMs: number },
): Promise<Believer | undefined> {
  const since = performance.now();
  const now = (Date.now() + skewMs) / 1_000;
  run += 1;
  const token = `documented${run}`;
  if ((await server.command("SET", `lock:${name}`, token, "NX")) !== "OK") return undefined;
  const [owner, counter] = [`${name}:owner`, `${name}:counter`];
  await server.command("ZREMRANGEBYSCORE", name, "-inf", String(now - TTL_MS / 1_000));
  await server.command("ZINTERSTORE", owner, "2", owner, name, "WEIGHTS", "1", "0");
  const turn = await server.command("INCR", counter);
  await server.command("ZADD", name, String(now), token);
  await server.command("ZADD", owner, String(turn), token);
  const rank = Number(await server.command("ZRANK", owner, token));
  if (rank >= limit) {
    await server.command("ZREM", name, token);
    await server.command("ZREM", owner, token);
  }
  await server.command("DEL", `lock:${name}`);
  return rank < limit ? believer(TTL_MS, since) : undefined;
}

/** Plays the steps; `make` is one client's handle, `intrude` what a program of others does. */
async function play<H extends Held>(
  steps: readonly Step[],
  {
    limit,
    make,
    intrude,
  }: {
    readonly limit: number;
    readonly make: (redis: Redis, name: string) => { acquire(options: object): Promise<H> };
    readonly intrude: (name: string) => Promise<Believer | undefined>;
  },
): Promise<readonly H[]> {
  run += 1;
  const name = `m${run}`;
  const handles = clients.map((redis) => make(redis, name));
  const holding: H[][] = clients.map(() => []);
  const acquired: H[] = [];
  const open: Promise<unknown>[] = [];
  const intruders: Believer[] = [];
  const check = () => {
    const believers = [...holding.flat(), ...intruders].filter(({ held }) => held);
    expect(believers.length).toBeLessThanOrEqual(limit);
  };
  for (const now of steps) {
    if (now.do === "acquire") {
      const acquiring = (handles[now.by] as { acquire(options: object): Promise<H> })
        .acquire({ waitMs: now.waitMs, renew: now.renew })
        .then((held) => {
          holding[now.by]?.push(held);
          acquired.push(held);
          check();
        })
        .catch(() => {});
      open.push(acquiring);
      if (now.waitMs < 40) await acquiring;
    } else if (now.do === "release") {
      const held = holding[now.by]?.shift();
      if (held !== undefined) open.push(held.release().catch(() => {}));
    } else if (now.do === "cut") proxies[now.by]?.cut();
    else if (now.do === "pause") await new Promise((resolve) => setTimeout(resolve, now.ms));
    else {
      const intruder = await intrude(name);
      if (intruder !== undefined) intruders.push(intruder);
    }
    check();
  }
  await Promise.all(open);
  check();
  await Promise.all(holding.flat().map((held) => held.release().catch(() => {})));
  return acquired;
}

test("a lock never has two holders, and its fence rises", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
      let names = "";
      const acquired = await play<HeldLock>(steps, {
        limit: 1,
        make: (redis, name) => {
          names = name;
          return new Lock(redis, name, { ttlMs: TTL_MS });
        },
        intrude: documentedLock,
      });
      const fences = acquired.map((held) => held.fence);
      expect(new Set(fences).size).toBe(fences.length);
      await eventually(
        async () =>
          expect(
            await server.command("EXISTS", `lock:${names}`, `lock-queue:{lock:${names}}`),
          ).toBe(0),
        { withinMs: 8_000 },
      );
    }),
    { numRuns: 40, endOnFailure: true },
  );
}, 120_000);

test("a semaphore never admits more than its limit, whatever the clocks of other programs say", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 30 }),
      fc.integer({ min: 1, max: 3 }),
      // Ahead by less than the margin of a permit; behind by any time.
      fc.constantFrom(-3_600_000, -1_000, -10, 0, 10),
      async (steps, limit, skewMs) => {
        await play<Permit>(steps, {
          limit,
          make: (redis, name) => new Semaphore(redis, name, { ttlMs: TTL_MS, limit }),
          intrude: (name) => documentedPermit(name, { limit, skewMs }),
        });
      },
    ),
    { numRuns: 40, endOnFailure: true },
  );
}, 120_000);
