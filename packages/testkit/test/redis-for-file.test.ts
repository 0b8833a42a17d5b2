import { expect, test } from "vitest";
import { redisForFile } from "../src/redis-for-file.ts";

const { server, redis } = await redisForFile({
  password: "hush",
  connect: { name: "of-this-file" },
});

test("a file gets a server as it asked for and a connection to it", async () => {
  expect(server.password).toBe("hush");
  expect(await redis.send(["PING"])).toBe("PONG");
  expect(String(await server.command("CLIENT", "LIST"))).toContain("of-this-file");
});
