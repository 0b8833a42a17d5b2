/** Which node gets a task, and which does not. */
import { silentLogger } from "@ropeway/core";
import { expect, it } from "vitest";
import { Placement } from "../src/nodes/placement.ts";
import { Registration } from "../src/nodes/registration.ts";
import { redisStage } from "./stage.fixture.ts";

it("chooses no node that is full or cannot run the type", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const node = await Registration.open({
    ...{ store, type: "redissyncer", id: "node_small", address: "", version: "" },
    ...{ types: ["scripted"], leaseMs: 60_000, reportMs: 60_000, maxTasks: 1 },
    ...{ logger: silentLogger, tasks: () => 0 },
  } as const);
  const placement = new Placement(store);
  const none = { reason: expect.stringContaining("no node has room for it") };
  expect(await placement.choose({ type: "other", except: [] })).toEqual(none);
  const request = { type: "scripted", except: [] };
  expect(await placement.choose(request)).toEqual({ nodeId: "node_small" });
  expect(await placement.choose(request)).toEqual(none);
  await node.close();
  await stage.close();
});
