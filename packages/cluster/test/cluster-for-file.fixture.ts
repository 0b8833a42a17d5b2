/**
 * What a file about tasks begins with: a store on a Redis of its own, and a cluster on that store.
 *
 *   const { stage, store, cluster, becomes } = await clusterForFile({ secrets });
 *
 * Awaited at the top of the file, like redisForFile() of the testkit.
 */
import { eventually } from "@ropeway/testkit";
import { afterAll, expect } from "vitest";
import { Cluster, type ClusterOptions } from "../src/cluster.ts";
import { redisStage } from "./stage.fixture.ts";

export async function clusterForFile(options: ClusterOptions = {}) {
  const stage = await redisStage();
  afterAll(() => stage.close());
  const store = await stage.open();
  const cluster = new Cluster(store, options);
  /** Waits until the task has these values. */
  const becomes = (taskId: string, expected: object) =>
    eventually(async () => expect(await cluster.tasks.get(taskId)).toMatchObject(expected), {
      withinMs: 15_000,
    });
  return { stage, store, cluster, becomes };
}
