/** The lists of a task: names that never meet, and bounds. */
import { silentLogger } from "@ropeway/core";
import { expect, it } from "vitest";
import { Alerts } from "../src/inspection/alerts.ts";
import { RoundLock } from "../src/inspection/round-lock.ts";
import { TaskInspection } from "../src/inspection/task-inspection.ts";
import { keys } from "../src/keys.ts";
import { Placement } from "../src/nodes/placement.ts";
import { rangeAll } from "../src/record.ts";
import { taskOperations } from "../src/tasks/indexes.ts";
import { KEPT, TaskRecords } from "../src/tasks/task-records.ts";
import { clusterForFile } from "./cluster-for-file.fixture.ts";

const { store, cluster } = await clusterForFile();
const event = { at: 1_700_000_000_000, event: "e", detail: "", nodeId: "n", epoch: 1 };

it("gives events of one moment different names, whichever process or part of it writes them", () => {
  const writers = Array.from({ length: 10 }, () => new TaskRecords(store));
  const names = writers.flatMap((records) =>
    Array.from({ length: 50 }, () => records.eventOperation("task_1", event).key),
  );
  expect(new Set(names).size).toBe(500);
});

it("trims the events of a task that inspections change often and no node runs", async () => {
  const wish = { name: "homeless", type: "scripted", config: {} };
  const { task } = await cluster.tasks.create(wish);
  const { taskId } = task;
  const waiting = { ...task, desired: "run", nodeId: "node_gone", generation: 49 } as const;
  const records = new TaskRecords(store);
  await store.txn({ do: taskOperations(task, waiting) });
  for (let n = 0; n < KEPT.events + 50; n += 50) {
    await store.txn({
      do: Array.from({ length: 50 }, () => records.eventOperation(taskId, event)),
    });
  }
  const [placement, alerts] = [
    new Placement(store),
    new Alerts({ store, sinks: [], logger: silentLogger }),
  ];
  const seen = await store.get(keys.lastInspection);
  const lock = await RoundLock.take(store, "portal_a", { seen, logger: silentLogger });
  if (lock === undefined) throw new Error("no lock");
  const inspection = new TaskInspection({ store, alerts, placement, guard: lock.guard });
  await inspection.leave("node_gone", [taskId]);
  expect(await cluster.tasks.get(taskId)).toMatchObject({ nodeId: "", generation: 50 });
  expect((await rangeAll(store, keys.events(taskId))).entries).toHaveLength(KEPT.events);
  await lock.abandon();
});
