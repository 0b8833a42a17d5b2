import { connect } from "@ropeway/core";
import { startCluster } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { createPortal } from "../src/index.ts";

test("accounts, sessions and throttles work on Redis Cluster", async () => {
  await using cluster = await startCluster();
  await using redis = await connect(cluster.url);
  await using portal = createPortal(redis);
  const { url, firstAdmin } = await portal.start();
  const ask = (method: string, headers: Record<string, string>, body?: object) =>
    fetch(`${url}/api/session`, {
      method,
      headers: { ...headers, ...(body && { "content-type": "application/json" }) },
      ...(body && { body: JSON.stringify(body) }),
    });
  const wrong = { username: "admin", password: "wrong password" };
  expect((await ask("POST", {}, wrong)).status).toBe(401);
  const login = await ask("POST", {}, { ...firstAdmin, as: "token" });
  expect(login.status).toBe(201);
  const { token } = (await login.json()) as { token: string };
  const authorization = `Bearer ${token}`;
  expect((await ask("GET", { authorization })).status).toBe(200);
  expect((await ask("DELETE", { authorization })).status).toBe(204);
  expect((await ask("GET", { authorization })).status).toBe(401);
});
