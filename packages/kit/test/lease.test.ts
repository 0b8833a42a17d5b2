import { LeaseLostError, type Logger, silentLogger } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { expect, test, vi } from "vitest";
import { Lease } from "../src/lease.ts";

const logger = silentLogger;

test("renewing many leases does not look at all of them for each", async () => {
  const many = 1_000;
  const looks = vi.spyOn(Lease.prototype, "dueAt", "get");
  let renewals = 0;
  const extend = async () => {
    renewals += 1;
    return true;
  };
  const leases = Array.from({ length: many }, (_, i) => {
    const plan = { what: `lease ${i}`, kind: "lock", ttlMs: 1_500, renew: true, extend } as const;
    return new Lease({ ...plan, logger, safeUntil: performance.now() + 1_500 });
  });
  await eventually(() => expect(renewals).toBeGreaterThan(2 * many));
  expect(looks.mock.calls.length).toBeLessThan(100 * many);
  expect(leases.every(({ held }) => held)).toBe(true);
  for (const lease of leases) lease.end();
  looks.mockRestore();
});

test("a reply to an earlier extension does not hide that a later one has shortened the time", async () => {
  const replies: (() => void)[] = [];
  const lease = new Lease({
    ...({ what: "lease", kind: "lock", ttlMs: 30_000, renew: false } as const),
    ...{ logger, safeUntil: performance.now() + 30_000 },
    extend: () => new Promise((resolve) => replies.push(() => resolve(true))),
  });
  const longer = lease.extend(30_000);
  const shorter = lease.extend(40);
  replies[0]?.();
  await longer;
  await eventually(() => expect(lease.signal.aborted).toBe(true)); // the second reply never came
  replies[1]?.();
  await expect(shorter).rejects.toThrow(LeaseLostError);
});

test("a lease is renewed after an earlier reply when the later extension has failed", async () => {
  let renewals = 0;
  let fail: (error: Error) => void = () => {};
  const failing = new Promise<boolean>((_, reject) => {
    fail = reject;
  });
  const lease = new Lease({
    ...({ what: "lease", kind: "lock", ttlMs: 300, renew: true } as const),
    ...{ logger, safeUntil: performance.now() + 300 },
    extend: () => {
      renewals += 1;
      return renewals === 2 ? failing : Promise.resolve(true);
    },
  });
  const earlier = lease.extend();
  const later = lease.extend();
  await earlier;
  fail(new Error("away"));
  await expect(later).rejects.toThrow("away");
  await eventually(() => expect(renewals).toBeGreaterThan(4));
  expect(lease.held).toBe(true);
  lease.end();
});

test("a renewal that failed is tried again before the lease ends", async () => {
  let renewals = 0;
  const lease = new Lease({
    ...({ what: "lease", kind: "lock", ttlMs: 3_000, renew: true } as const),
    ...{ logger, safeUntil: performance.now() + 3_000 },
    extend: async () => {
      renewals += 1;
      if (renewals === 1) throw new Error("away");
      return true;
    },
  });
  await eventually(() => expect(renewals).toBeGreaterThan(1));
  expect(lease.end()).toBe(true);
});

test("abort listeners of the holder that throw or reject are logged, and end neither the process nor other leases", async () => {
  const errors: unknown[] = [];
  const noting: Logger = { ...silentLogger, error: (...said) => void errors.push(said) };
  const lose = { kind: "lock", ttlMs: 40, renew: false, extend: async () => true } as const;
  const lost: string[] = [];
  const leases = ["first", "second"].map((what) => {
    const lease = new Lease({ ...lose, what, logger: noting, safeUntil: performance.now() + 40 });
    lease.signal.addEventListener("abort", () => {
      throw new Error("thrown by a listener");
    });
    lease.signal.addEventListener("abort", async () => {
      throw new Error("rejected by a listener");
    });
    lease.signal.addEventListener("abort", () => lost.push(what));
    return lease;
  });
  await eventually(() => expect(errors).toHaveLength(4));
  expect(lost).toEqual(["first", "second"]);
  expect(errors).toContainEqual([
    { err: "thrown by a listener", what: "first" },
    "an abort listener failed",
  ]);
  expect(leases.some(({ held }) => held)).toBe(false);
});
