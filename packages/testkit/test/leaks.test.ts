import { basename } from "node:path";
import { expectNoKeys, spawnScript, startRedis } from "@ropeway/testkit";
import { beforeAll, describe, expect, test } from "vitest";

describe("a test file", () => {
  let code: number | null;
  let verdicts: Map<string, { status: string; message: string }>;

  beforeAll(async () => {
    await using run = await spawnScript(new URL("./leaks/run.fixture.ts", import.meta.url));
    ({ code } = await run.exited);
    const [report] = await run.waitForLine(/^\{.*\}$/);
    const { testResults } = JSON.parse(report) as {
      testResults: { name: string; status: string; message: string }[];
    };
    verdicts = new Map(testResults.map((result) => [basename(result.name, ".leak.ts"), result]));
  });

  test("passes when it closed everything", () => {
    expect(verdicts.get("clean")).toMatchObject({ status: "passed" });
  });

  test("fails when a connection to its Redis is left, and the message names the client", () => {
    expect(verdicts.get("client")).toMatchObject({
      status: "failed",
      message: expect.stringMatching(/client "forgotten" \(id \d+, from 127\.0\.0\.1:\d+/),
    });
  });

  test("fails when a server or proxy is left running", () => {
    const { status, message } = verdicts.get("server") ?? {};
    expect(status).toBe("failed");
    expect(message).toMatch(/redis-server redis:\/\/127\.0\.0\.1:\d+ was not closed/);
    expect(message).toMatch(/proxy 127\.0\.0\.1:\d+ was not closed/);
  });

  test("fails when any socket or listener is left open", () => {
    const { status, message } = verdicts.get("socket") ?? {};
    expect(status).toBe("failed");
    expect(message).toMatch(/1 more TCPServerWrap than at its start/);
    expect(message).toMatch(/a socket from port \d+ to 127\.0\.0\.1:\d+/);
  });

  test("fails when a timer is left running", () => {
    expect(verdicts.get("timer")).toMatchObject({
      status: "failed",
      message: expect.stringContaining("1 more Timeout than at its start"),
    });
  });

  test("that leaks makes the whole run fail", () => {
    expect(code).toBe(1);
  });
});

test("expectNoKeys finds keys by their literal prefix only", async () => {
  await using redis = await startRedis();
  await redis.command("SET", "shop*:1", "x");
  await redis.command("SET", "shopping", "x");
  await expectNoKeys(redis, "shop:");
  await expect(expectNoKeys(redis, "shop*")).rejects.toThrow("1 keys begin with shop*: shop*:1");
});
