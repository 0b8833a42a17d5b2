import { expect, it } from "vitest";
import { faultLines } from "../chaos/fault-report.ts";
import { chaosFaults } from "../chaos/faults.ts";

it("keeps every task, with one writer, through the death of a node, a portal and etcd's leader", async () => {
  const report = await chaosFaults({
    tasks: 3,
    syncs: 1,
    nodes: 3,
    portals: 3,
    faults: ["kill-node", "kill-portal", "kill-leader", "stop-node"],
    leaseMs: 3_000,
    stopMs: 6_000,
    idleMs: 60_000, // `npm run chaos -- cluster` has the bound that counts
    seed: 7,
  });
  for (const line of faultLines(report)) expect(line).toMatch(/ OK$/);
}, 240_000);
