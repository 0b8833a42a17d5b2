import { parseEndpoint } from "@ropeway/core";
import { startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { claimCheckpoint } from "../../src/sink/claim.ts";
import { Locator } from "../../src/wire/locator.ts";

test("a target that takes no writes refuses the claim with a sentence", async () => {
  await using server = await startRedis();
  const endpoint = parseEndpoint(server.url, "to");
  const locator = new Locator(endpoint, { connectTimeoutMs: 1_000, name: "test", master: true });
  await using connection = await locator.connect();
  const claim = {
    ...{ connection, task: "t", key: "checkpoint", epoch: undefined },
    isEmpty: async () => true,
  };
  expect(await claimCheckpoint(claim)).toMatchObject({ epoch: 1 });
  await server.command("CONFIG", "SET", "min-replicas-to-write", "1");
  await expect(claimCheckpoint(claim)).rejects.toMatchObject({
    code: "TARGET_REFUSED",
    message: expect.stringContaining("NOREPLICAS"),
  });
});
