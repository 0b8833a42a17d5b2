import { startProxy, startRedis } from "@ropeway/testkit";
import { test } from "vitest";

test("leaves a server and a proxy running", async () => {
  await startProxy(await startRedis());
});
