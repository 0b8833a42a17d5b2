import { otherServer, startRedis } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { connect } from "../src/index.ts";
import { atLeast, parseServerInfo, tooOld } from "../src/server-info.ts";

test("the family and version are read from INFO", () => {
  expect(parseServerInfo("# Server\r\nredis_version:7.0.15\r\n")).toEqual({
    family: "redis",
    version: "7.0.15",
    title: "Redis 7.0.15",
  });
  const valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
  expect(parseServerInfo(valkey)).toMatchObject({ family: "valkey", version: "8.1.1" });
});

test.each([
  ["redis_version:5.0.14", true],
  ["redis_version:6.0.16", true],
  ["redis_version:6.2.0", false],
  ["redis_version:10.0.0", false],
  ["redis_version:7.2.4\r\nvalkey_version:7.2.5", false],
  ["", false], // would not tell
])("%j is too old: %s", (info, expected) => {
  expect(tooOld(parseServerInfo(info)) !== undefined).toBe(expected);
});

test("abilities are decided by version", () => {
  const server = parseServerInfo("redis_version:7.0.15");
  expect(atLeast(server, [7, 0])).toBe(true);
  expect(atLeast(server, [7, 2])).toBe(false);
});

const old = otherServer("redis-6.0");
describe.skipIf(old.command === undefined)(`Redis 6.0 ${old.reason ?? ""}`, () => {
  test("a server that is too old is refused at once, in one sentence", async () => {
    await using server = await startRedis({ version: "redis-6.0" });
    await expect(connect(server.url, { connectWaitMs: 60_000 })).rejects.toMatchObject({
      code: "SERVER_TOO_OLD",
      message: expect.stringMatching(
        /^127\.0\.0\.1:\d+ is Redis 6\.0\.\d+, but Redis 6\.2 or Valkey 7\.2, or newer, is needed$/,
      ),
    });
  });
});

describe.each(["redis-8.0", "valkey-8.1"] as const)("%s", (version) => {
  const other = otherServer(version);
  test.skipIf(other.command === undefined)(`is welcome ${other.reason ?? ""}`, async () => {
    await using server = await startRedis({ version });
    await using redis = await connect(server.url);
    expect(`${redis.server.family}-${redis.server.version}`).toContain(version);
  });
});
