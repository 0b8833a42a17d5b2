// The engine against a short model of itself in TypeScript: for any order of pushes, gets,
// completes and releases, list, time, lock and batch follow the rules.
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Inspector, MergeQueue } from "../src/index.ts";

const { redis } = await redisForFile();

/** The expected state of one key. Times are in the past, so that only "lease" is unknown. */
class Model {
  items: string[] = [];
  time: number | "lease" | undefined;
  next: number | undefined;
  batch = 0;
  locked = false;
  marked = false;

  push(body: string, at: number, always: boolean): void {
    const fresh = this.items.length - this.batch;
    if (this.batch > 0) {
      if (fresh === 0 || always) this.next = at; // a retry is never moved
    } else {
      if (fresh === 0 || always || this.marked) this.time = at;
      this.marked = false;
    }
    this.items.push(body);
  }

  get(number: number): string[] | "locked" | undefined {
    if (this.locked) return "locked";
    if (this.items.length === 0) return undefined;
    const handed = number < 0 ? this.items.length : Math.min(number, this.items.length);
    if (handed === this.items.length) this.next = undefined;
    else if (this.batch === 0 || this.next === undefined) this.next = this.time as number;
    this.batch = handed;
    this.locked = true;
    this.marked = true;
    this.time = "lease";
    return this.items.slice(0, handed);
  }

  complete(): void {
    this.items.splice(0, this.batch);
    this.time = this.items.length === 0 ? undefined : this.next;
    this.next = undefined;
    this.batch = 0;
    this.locked = false;
    this.marked = false;
  }

  release(at: number): void {
    this.locked = false;
    this.time = at;
  }
}

type Step =
  | { readonly do: "push"; readonly at: number; readonly always: boolean }
  | { readonly do: "get"; readonly number: number }
  | { readonly do: "complete" }
  | { readonly do: "release"; readonly at: number };

const at = fc.integer({ min: 1, max: 1_000_000 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("push" as const), at, always: fc.boolean() }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("get" as const), number: fc.constantFrom(-1, 1, 2, 5) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("complete" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("release" as const), at }) },
);

test("any order of actions leaves what the model says", async () => {
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      run += 1;
      const queue = new MergeQueue(redis, { prefix: `m${run}` });
      const model = new Model();
      let bodies = 0;
      let token = "";
      for (const each of steps) {
        if (each.do === "push") {
          const body = String(bodies++);
          const update = each.always ? "always" : "once";
          await queue.push("k", body, { at: each.at * 1_000, update });
          model.push(body, each.at, each.always);
        } else if (each.do === "get") {
          const expected = model.get(each.number);
          const got = await queue
            .get("k", { number: each.number, leaseMs: 600_000 })
            .catch((error) =>
              error.code === "LOCKED" ? ("locked" as const) : Promise.reject(error),
            );
          const handed = typeof got === "object" ? got.items.map((item) => String(item.body)) : got;
          expect(handed).toEqual(expected);
          if (typeof got === "object") token = got.token;
        } else if (each.do === "complete" && model.locked) {
          await queue.complete("k", token);
          model.complete();
        } else if (each.do === "release" && model.locked) {
          await queue.release("k", token, { at: each.at * 1_000 });
          model.release(each.at);
        }
        await compare(queue, model);
      }
    }),
    { numRuns: 150 },
  );
}, 60_000);

async function compare(queue: MergeQueue, model: Model): Promise<void> {
  const { keys } = queue;
  const [items, score, locked, marked, seen] = await Promise.all([
    redis.send<readonly string[]>(["LRANGE", keys.queue("k"), "0", "-1"]),
    redis.send<string | null>(["ZSCORE", keys.timer, "k"]),
    redis.send<number>(["EXISTS", `${keys.queue("k")}:locker`]),
    redis.send<number>(["EXISTS", `${keys.queue("k")}:overwrite`]),
    new Inspector(queue).peek("k", { limit: 100 }),
  ]);
  expect(items).toEqual(model.items);
  expect(seen.oldest).toHaveLength(model.items.length);
  expect(new Set(seen.oldest.map(({ id }) => id)).size).toBe(model.items.length);
  expect(locked === 1).toBe(model.locked);
  expect(marked === 1).toBe(model.marked);
  const time = score === null ? undefined : Number(score);
  if (model.time === "lease") expect(time).toBeGreaterThan(1_000_000_000);
  else expect(time).toBe(model.time);
}
