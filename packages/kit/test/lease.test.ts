import { eventually } from "@ropeway/testkit";
import { expect, test, vi } from "vitest";
import { Lease } from "../src/lease.ts";

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
    return new Lease({ ...plan, safeUntil: performance.now() + 1_500 });
  });
  await eventually(() => expect(renewals).toBeGreaterThan(2 * many));
  expect(looks.mock.calls.length).toBeLessThan(100 * many);
  expect(leases.every(({ held }) => held)).toBe(true);
  for (const lease of leases) lease.end();
  looks.mockRestore();
});
