import { InvalidOptionError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import type { JobOptions } from "../src/index.ts";
import { queueKeys } from "../src/internal.ts";
import { planJob } from "../src/queue/job-plan.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();

describe("options of a job", () => {
  it("that are no durations, counts or names are refused with the value", async () => {
    const queue = one.queue();
    const bad: unknown[] = [
      { delayMs: Number.NaN },
      { delayMs: 1e21 },
      { delayMs: -1 },
      { runAt: 1e16 },
      { runAt: Number.POSITIVE_INFINITY },
      { priority: 1e7 },
      { attempts: 0 },
      { timeoutMs: 0 },
      { dedupe: { key: "k", ttlMs: 2 ** 53 - 1 } },
      { dedupe: { key: "k", ttlMs: -5 } },
      { dedupe: { key: "k", mode: "other" } },
      { dedupe: { key: "k", ttl: 5 } },
      { dedupe: 5 },
      { keep: { completed: { ageMs: Number.NaN } } },
      { keep: { completed: Number.MAX_SAFE_INTEGER } },
      { keep: { completed: "100" } },
      { keep: { completed: null } },
      { keep: { completed: { age: 5 } } },
      { keep: { complete: 5 } },
      { keep: 5 },
      { keep: null },
      { runAt: null },
      { runAt: "tomorrow" },
      { backoff: { kind: "exponental" } },
      { backoff: { kind: "mine" } },
      { backoff: { kind: "custom" } },
      { backoff: { delayMs: 1_000, maxMs: 10 } },
      { backoff: { delay: 5 } },
      { backoff: "fast" },
      { backof: 5 },
      { group: "" },
      { group: "a\0b" },
    ];
    for (const options of bad) {
      const added = queue.add("n", 1, options as JobOptions);
      await expect(added, JSON.stringify(options)).rejects.toMatchObject({
        code: expect.stringMatching(/INVALID_(OPTION|NAME)/),
      });
    }
    expect(await queue.counts()).toMatchObject({ waiting: 0, delayed: 0 });
    expect(() => one.queue({ defaults: { attempts: -1 } })).toThrow(InvalidOptionError);
  });

  it("survive a change of the job, also as many attempts as there are numbers", async () => {
    const queue = one.queue();
    const options = { attempts: Number.MAX_SAFE_INTEGER, priority: 1, keep: { failed: true } };
    const job = await queue.add("n", 1, options);
    const before = await job.view();
    await job.update({ priority: 2 });
    expect(await job.view()).toEqual({ ...before, priority: 2 });
    expect(before?.maxAttempts).toBeGreaterThan(1e9);
  });

  it("say how long to wait between attempts, and a fixed delay is what was asked for", () => {
    const day = 86_400_000;
    expect(planJob({ backoff: { kind: "fixed", delayMs: day } }).options.b).toEqual([
      "fixed",
      day,
      day,
      0,
    ]);
    expect(planJob({ backoff: {} }).options.b).toEqual(["exponential", 1_000, 3_600_000, 0.2]);
    expect(planJob({ backoff: { kind: "custom", name: "mine" } }).options.b?.[0]).toBe(
      "custom:mine",
    );
  });
});

describe("jobs that are added in one tick", () => {
  it("do not suffer from one that Redis refuses", async () => {
    const queue = one.queue();
    const { dedupe } = queueKeys("ropeway:jobs", queue.name);
    await one.redis.send(["SET", dedupe, "not a hash"]);
    const outcomes = await Promise.allSettled([
      queue.add("a", 1),
      queue.add("b", 2, { dedupe: "k" }),
      queue.add("c", 3),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect((outcomes[1] as PromiseRejectedResult).reason).toMatchObject({ code: "WRONG_KEY_TYPE" });
    expect(await queue.counts()).toMatchObject({ waiting: 2 });
    await one.redis.send(["DEL", dedupe]);
  });
});

describe("a custom backoff", () => {
  it("that the worker does not know is reported, and the plan's delay is used", async () => {
    const queue = one.queue();
    const errors: unknown[] = [];
    let runs = 0;
    one
      .worker(queue, () => {
        runs++;
        throw new Error("no");
      })
      .on("error", (error) => void errors.push(error));
    const backoff = { kind: "custom", name: "unknown", delayMs: 1, maxMs: 5 } as const;
    await queue.add("n", 1, { attempts: 2, backoff });
    await eventually(() => expect(runs).toBe(2));
    expect(errors[0]).toMatchObject({ code: "INVALID_OPTION" });
  });
});
