import { Queue } from "@ropeway/jobs";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { speak } from "../spoken.ts";

const { server, redis } = await redisForFile();

beforeEach(() => server.command("FLUSHALL"));

const ropeway = (args: readonly string[], signal?: AbortSignal) =>
  speak(["jobs", ...args], { env: { REDIS_URL: server.url }, ...(signal && { signal }) });
// biome-ignore lint/suspicious/noExplicitAny: answers are looked at, not typed
const json = async (...args: string[]): Promise<any> => {
  const { code, stdout, stderr } = await ropeway([...args, "--json"]);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
};

test("a job is added, listed, shown, promoted, cancelled", async () => {
  const { id } = await json("add", "mail", "send", '{"to":"ann"}', "--delay", "60000", "--id", "a");
  expect(id).toBe("a");
  expect(await json("add", "mail", "send", "--id", "a")).toEqual({
    id: "a",
    deduplicated: "exists",
  });
  expect(await json("list")).toMatchObject([{ name: "mail", delayed: 1 }]);
  expect(await json("list", "mail", "--state", "delayed", "--search", "ann")).toMatchObject([
    { id: "a" },
  ]);
  expect(await json("show", "mail", "a")).toMatchObject({ state: "delayed", data: { to: "ann" } });
  expect((await ropeway(["list", "mail"])).stdout).toMatch(/^delayed\ta\tsend\t0\/1\tdue /);
  expect(await json("promote", "mail", "a")).toEqual({ outcome: "promoted" });
  expect(await json("cancel", "mail", "a")).toEqual({ outcome: "removed" });
  const gone = await ropeway(["show", "mail", "a"]);
  expect(gone).toMatchObject({ code: 4, stderr: expect.stringContaining('no job "a"') });
});

test("the demo worker echoes, sleeps and fails; watch shows it; retry and pause work", async () => {
  const stop = new AbortController();
  const working = ropeway(["work-demo", "--queue", "demo"], stop.signal);
  const watching = ropeway(["watch", "demo", "--json"], stop.signal);
  const reading = ropeway(["watch", "demo"], stop.signal);
  const queue = new Queue(redis, "demo");
  await eventually(async () => {
    expect(await queue.workers()).toHaveLength(1);
    expect(String(await server.command("CLIENT", "LIST")).match(/jobs-events/g)).toHaveLength(2);
  });
  expect(await json("add", "demo", "echo", '{"a":[1]}', "--wait")).toMatchObject({
    result: { a: [1] },
  });
  expect((await ropeway(["add", "demo", "sleep", "50", "--wait"])).stdout).toBe('"slept 50 ms"\n');
  await json("add", "demo", "fail", "--id", "bad");
  await eventually(async () =>
    expect(await json("show", "demo", "bad")).toMatchObject({ state: "failed" }),
  );
  expect((await ropeway(["show", "demo", "bad"])).stdout).toMatch(
    /^failure {6}Error: this job always fails\n {15}at .*\n( {15}at .*\n)*endedAt {6}\d{4}-/m,
  );
  const failed = await ropeway(["add", "demo", "fail", "--wait"]);
  expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining("always fails") });
  expect((await json("retry", "demo", "--all")).jobs).toBeGreaterThan(0);
  expect(await json("pause", "demo")).toEqual({ outcome: "paused" });
  expect(await json("list")).toMatchObject([{ name: "demo", paused: true }]);
  expect(await json("resume", "demo")).toEqual({ outcome: "resumed" });
  stop.abort("SIGINT");
  expect((await working).stdout).toContain("completed");
  expect((await watching).stdout).toContain('"event":"completed"');
  expect((await reading).stdout).toMatch(
    /^\d{4}-\S+Z {2}failed {5}bad {2}fail {2}Error: this job always fails$/m,
  );
  await queue.close();
});

test("what cannot be is refused in one sentence", async () => {
  expect(await ropeway(["add", "q", "n", "{no"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("must be JSON"),
  });
  for (const [flag, value, allowed] of [
    ["--delay", "soon", "a whole number from 0 on"],
    ["--delay", "-5", "a whole number from 0 on"],
    ["--attempts", "0", "a whole number from 1 on"],
    ["--priority", "1.5", "a whole number"],
  ] as const) {
    const stderr = `ropeway: ${flag} is "${value}", but must be ${allowed}\n`;
    const said = await ropeway(["add", "q", "n", flag, value]);
    expect(said).toEqual({ code: 2, stdout: "", stderr });
  }
  // The library's own bounds are told under the name of the flag as well.
  expect(await ropeway(["add", "q", "n", "--priority", "9999999"])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^ropeway: --priority is 9999999, but must be /),
  });
  expect(await ropeway(["work-demo", "--queue", "q", "--concurrency", "99999"])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^ropeway: --concurrency is 99999, but must be /),
  });
  expect(await ropeway(["add", "", "n"])).toMatchObject({ code: 2 });
  expect(await ropeway(["retry", "q"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--all"),
  });
});
