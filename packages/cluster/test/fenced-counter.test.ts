import { connect } from "@ropeway/core";
import { startRedis } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { FencedCounter } from "../src/runners/store/fenced-counter.ts";

it("counts only for the run that raised the fence, and only while no later one has", async () => {
  await using server = await startRedis();
  await using redis = await connect(server.url);
  const [first, second] = [1, 2].map((epoch) => new FencedCounter(redis, "task_1", epoch)) as [
    FencedCounter,
    FencedCounter,
  ];
  const refused = { code: "LEASE_LOST" };
  await expect(first.step()).rejects.toMatchObject(refused); // nobody raised it yet
  expect(await first.raise()).toBe(0);
  expect(await first.step()).toBe(1);
  await expect(second.step()).rejects.toMatchObject(refused);
  expect(await second.raise()).toBe(1);
  expect(await second.step()).toBe(2);
  await expect(first.step()).rejects.toMatchObject(refused);
  await expect(first.raise()).rejects.toMatchObject(refused);
  expect(await second.step()).toBe(3);
  const epochs = await server.command("LRANGE", "ropeway:scripted:{task_1}:epochs", 0, -1);
  expect(epochs).toEqual(["1", "2", "2"]);
});
