import { expect, it } from "vitest";
import { clusterForFile } from "./cluster-for-file.fixture.ts";

const { cluster } = await clusterForFile();

it.each(["yes", 1, null, {}])("refuses %j where true or false is meant", async (value) => {
  const refused = (name: string) => ({ code: "INVALID_ARGUMENT", details: { argument: name } });
  const wish = { name: `flag ${JSON.stringify(value)}`, type: "scripted", config: {} };
  const odd = (name: string) => ({ [name]: value }) as object;
  for (const name of ["immortal", "local", "start"]) {
    await expect(cluster.tasks.create({ ...wish, ...odd(name) })).rejects.toMatchObject(
      refused(name),
    );
  }
  const { taskId } = (await cluster.tasks.create(wish)).task;
  await expect(cluster.tasks.edit(taskId, odd("immortal"))).rejects.toMatchObject(
    refused("immortal"),
  );
  await expect(cluster.tasks.start(taskId, odd("afresh"))).rejects.toMatchObject(refused("afresh"));
  expect(await cluster.tasks.get(taskId)).toMatchObject({ immortal: false, desired: "stop" });
  await cluster.tasks.remove(taskId);
});
