// `task events --follow` of a task whose last change is gone from the history of the store.
import { Cluster, openRedisStore, SecretBox } from "@ropeway/cluster";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { speak } from "../spoken.ts";

const { server, redis } = await redisForFile();

test("task events --follow follows a task that has been idle for long", async () => {
  await using store = openRedisStore(redis);
  const { tasks } = new Cluster(store, { secrets: new SecretBox(undefined) });
  const { task } = await tasks.create({ name: "idle", type: "scripted", config: {} });
  const kept = await store.put("/another", "value");
  await server.command("XTRIM", "ropeway:store:@log", "MINID", String(kept));
  await store.put("/another", "value");
  let text = "";
  let noting: NodeJS.Timeout | undefined;
  const stdout = {
    write(part: string) {
      text += part;
      if (text.includes("created")) {
        const event = { at: Date.now(), event: "noted", detail: "", nodeId: "", epoch: 0 };
        const note = () =>
          store.txn({ do: [tasks.records.eventOperation(task.taskId, event)] }).catch(() => {});
        noting ??= setInterval(() => void note(), 50);
      }
      // The removal of the task ends the command.
      if (/^\S+ {2}noted/m.test(text)) void tasks.remove(task.taskId).catch(() => {});
    },
  };
  const env = { REDIS_URL: server.url };
  const { code } = await speak(["task", "events", task.taskId, "--follow"], { env, stdout });
  clearInterval(noting);
  expect({ code, text }).toEqual({ code: 0, text: expect.stringMatching(/^\S+ {2}noted/m) });
});
