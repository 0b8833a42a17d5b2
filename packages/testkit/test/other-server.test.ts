import { otherServer, startRedis } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { fetchServer } from "../src/other-server.ts";

describe.each(["redis-6.0", "redis-8.0", "valkey-8.1"] as const)("%s", (version) => {
  const { reason } = otherServer(version);

  test("is started when it can be had", async ({ skip }) => {
    skip(reason !== undefined, reason);
    await using redis = await startRedis({ version });
    const [, number] = version.split("-");
    expect(await redis.command("INFO", "server")).toMatch(
      new RegExp(`(redis|valkey)_version:${number}`),
    );
    await redis.command("SET", "k", "v");
    await redis.restart();
    await expect(redis.command("GET", "k")).resolves.toBe("v");
  });
});

test("where the script is missing the reason says so", () => {
  expect(fetchServer("redis-6.0", undefined)).toEqual({
    version: "redis-6.0",
    reason: "skipped: redis-6.0 comes from Debian's archive, which needs apt-get on x86-64 Linux",
  });
});

test("where the script fails the reason has its last words", () => {
  expect(fetchServer("redis-6.0", "/bin/false").reason).toContain("could not be fetched");
});
