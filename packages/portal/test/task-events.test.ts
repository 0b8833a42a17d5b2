/** The event stream of a task whose history in the store is gone. */
import { setTimeout as sleep } from "node:timers/promises";
import { Cluster, openRedisStore, SecretBox } from "@ropeway/cluster";
import { expect, test } from "vitest";
import { tasksPart } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

/** A stage with a task whose last change is gone from the history. */
async function idleTask(stage: Stage, cluster: Cluster): Promise<string> {
  const { store, tasks } = cluster;
  const { task } = await tasks.create({ name: "idle", type: "scripted", config: {} });
  const kept = await store.put("/another", "value");
  await stage.server.command("XTRIM", "ropeway:store:@log", "MINID", String(kept));
  await store.put("/another", "value");
  return task.taskId;
}

test.each([undefined, "1"])(
  "an idle task is sent once (last event: %s), and then at its next change",
  async (lastId) => {
    let cluster: Cluster | undefined;
    await using stage = await Stage.open({
      partsOf(redis) {
        cluster = new Cluster(openRedisStore(redis), { secrets: new SecretBox("33".repeat(32)) });
        return [tasksPart(cluster)];
      },
    });
    if (cluster === undefined) throw new Error("no cluster");
    const id = await idleTask(stage, cluster);
    const abort = new AbortController();
    const headers = { ...(await stage.bearer()), ...(lastId && { "last-event-id": lastId }) };
    const { signal } = abort;
    const response = await stage.ask(`/api/tasks/${id}/events`, { headers, signal });
    let text = "";
    for await (const chunk of response.body ?? []) {
      const before = text;
      text += Buffer.from(chunk as Uint8Array).toString();
      if (text.includes('"name":"changed"')) break;
      if (before.includes("event: task") || !text.includes("event: task")) continue;
      await sleep(200); // a stream that begins again and again would send many events meanwhile
      await cluster.tasks.edit(id, { name: "changed" });
    }
    abort.abort();
    const events = [...text.matchAll(/^event: (task|reset)$/gm)].map(([, event]) => event);
    expect(events).toEqual(lastId === undefined ? ["task", "task"] : ["reset", "task", "task"]);
    await cluster.store.close();
  },
);
