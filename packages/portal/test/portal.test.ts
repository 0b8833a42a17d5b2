import { connect, type Redis } from "@ropeway/core";
import { type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPortal } from "../src/index.ts";

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = await connect(server.url);
});

afterAll(async () => {
  await redis.close();
  await server.close();
});

test("a started portal answers on its URL, and no longer after close", async () => {
  const portal = createPortal(redis, { prefix: "life" });
  expect(portal.url).toBeUndefined();
  const { url } = await portal.start();
  expect(portal.url).toBe(url);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  await portal.close();
  await portal.close();
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
});
