import { Queue, Worker } from "@ropeway/jobs";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { DURATION_ALLOWED } from "../../src/duration.ts";
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
  expect(await json("list")).toMatchObject({ items: [{ name: "mail", delayed: 1 }] });
  expect(await json("list", "mail", "--state", "delayed", "--search", "ann")).toMatchObject({
    items: [{ id: "a" }],
    cursor: null,
  });
  const shown = await json("show", "mail", "a");
  expect(shown).toMatchObject({ state: "delayed", data: { to: "ann" } });
  expect([shown.addedAt, shown.dueAt].map((time) => new Date(time).toISOString())).toEqual([
    shown.addedAt,
    shown.dueAt,
  ]);
  const words = (await ropeway(["show", "mail", "a"])).stdout;
  expect(words).toMatch(/^max attempts 1$/m);
  expect(words).toContain(`\nadded        ${shown.addedAt}\n`);
  expect((await json("list", "mail")).items).toMatchObject([{ addedAt: shown.addedAt }]);
  expect((await ropeway(["list", "mail"])).stdout).toMatch(/^delayed\ta\tsend\t0\/1\tdue /);
  expect(await json("promote", "mail", "a")).toEqual({ outcome: "promoted", id: "a" });
  expect(await json("cancel", "mail", "a")).toEqual({ outcome: "removed", id: "a" });
  const gone = await ropeway(["show", "mail", "a"]);
  expect(gone).toMatchObject({ code: 4, stderr: expect.stringContaining('no job "a"') });
});

test("a queue is shown as a whole", async () => {
  await json("add", "mail", "send", "--delay", "1h");
  await json("limits", "mail", "--concurrency", "3");
  await json("schedule", "mail", "nightly", "send", "--every", "1h");
  expect(await json("show", "mail")).toMatchObject({
    ...{ name: "mail", paused: false, oldestWaitingMs: null, limits: { concurrency: 3 } },
    counts: { waiting: 0, delayed: 1, active: 0, failed: 0 },
    totals: { completed: 0, failed: 0 },
    workers: [],
    schedules: [{ id: "nightly", nextAt: expect.stringMatching(/^20/) }],
  });
  const { stdout } = await ropeway(["show", "mail"]);
  expect(stdout).toMatch(/^queue +mail\npaused +no\n/);
  expect(stdout).toMatch(/^concurrency +3$/m);
  expect(await ropeway(["show", "mial"])).toMatchObject({
    code: 4,
    stderr: expect.stringContaining("did you mean mail?"),
  });
});

test("children are listed, results are waited for, and failed jobs are retried by name", async () => {
  const queue = new Queue(redis, "demo");
  const parent = await queue.addFlow({
    name: "echo",
    data: "all",
    options: { awaited: true },
    children: [
      { name: "echo", data: "one" },
      { name: "fail", onFailure: "ignore" },
    ],
  });
  expect((await json("children", "demo", parent.id)).items).toMatchObject([
    { state: "pending" },
    { state: "pending" },
  ]);
  expect(await ropeway(["result", "demo", parent.id, "--timeout", "10"])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("timed out after 10 ms"),
  });
  const stop = new AbortController();
  const working = ropeway(["work-demo", "--queue", "demo"], stop.signal);
  expect(await json("result", "demo", parent.id)).toEqual({ id: parent.id, result: "all" });
  const children = (await ropeway(["children", "demo", parent.id])).stdout;
  expect(children).toMatch(/^completed\t\S+\t"one"$/m);
  expect(children).toMatch(/^failed\t\S+\t.*always fails/m);
  expect(await json("retry", "demo", "--name", "echo")).toMatchObject({ jobs: 0 });
  expect(await json("retry", "demo", "--name", "fail")).toMatchObject({ jobs: 1 });
  expect((await ropeway(["children", "demo", "nosuch"])).code).toBe(4);
  expect((await ropeway(["result", "demo", "nosuch"])).code).toBe(4);
  stop.abort("SIGINT");
  await working;
});

test("waiting for a result says that there is no worker", async () => {
  const added = ropeway(["add", "lonely", "echo", "1", "--wait"]);
  const queue = new Queue(redis, "lonely");
  await eventually(async () => expect((await queue.counts()).waiting).toBe(1));
  await eventually(async () =>
    expect(String(await server.command("CLIENT", "LIST"))).toMatch(/jobs-/),
  );
  const stop = new AbortController();
  const working = ropeway(["work-demo", "--queue", "lonely"], stop.signal);
  const { stdout, stderr } = await added;
  expect([stdout, stderr]).toEqual([
    "1\n",
    expect.stringContaining("Start one with `ropeway jobs work-demo --queue lonely`"),
  ]);
  stop.abort("SIGINT");
  await working;
});

test("the demo worker is not offered for a job that it cannot run", async () => {
  const added = ropeway(["add", "lonely-pages", "render", "1", "--wait"]);
  const queue = new Queue(redis, "lonely-pages");
  await eventually(async () => expect((await queue.counts()).waiting).toBe(1));
  await eventually(async () =>
    expect(String(await server.command("CLIENT", "LIST"))).toMatch(/jobs-/),
  );
  await using _worker = new Worker(redis, "lonely-pages", { render: () => "page" });
  const { stdout, stderr } = await added;
  expect([stdout, stderr]).toEqual(['"page"\n', expect.stringContaining("No workers")]);
  expect(stderr).not.toContain("work-demo");
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
    /^failure {6}Error: this job always fails\n {15}at .*\n( {15}at .*\n)*ended {8}\d{4}-/m,
  );
  const failed = await ropeway(["add", "demo", "fail", "--wait"]);
  expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining("always fails") });
  expect((await json("retry", "demo", "--all")).jobs).toBeGreaterThan(0);
  expect(await json("pause", "demo")).toEqual({ outcome: "paused", queue: "demo" });
  expect(await json("list")).toMatchObject({ items: [{ name: "demo", paused: true }] });
  expect(await json("resume", "demo")).toEqual({ outcome: "resumed", queue: "demo" });
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
    ["--delay", "soon", DURATION_ALLOWED],
    ["--delay", "-5", DURATION_ALLOWED],
    ["--attempts", "0", "a whole number of at least 1"],
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

test("a queue is limited, scheduled, changed, drained, measured and deleted", async () => {
  await json("add", "mail", "send", "1", "--id", "a");
  await json("add", "mail", "send", "2", "--id", "b", "--delay", "60000");
  expect(await json("limits", "mail")).toEqual({});
  const limits = { concurrency: 5, rate: { max: 500, perMs: 1_000 } };
  expect(await json("limits", "mail", "--concurrency", "5", "--rate", "500/1000")).toEqual(limits);
  expect((await ropeway(["limits", "mail"])).stdout).toMatch(/^rate +500 per 1000 ms$/m);
  expect(await json("limits", "mail", "--rate", "none", "--concurrency", "none")).toEqual({});
  expect(await ropeway(["limits", "mail", "--rate", "many"])).toMatchObject({ code: 2 });

  const schedule = ["schedule", "mail", "nightly", "report", "{}", "--cron", "@daily"];
  expect(await json(...schedule, "--no-overlap", "--limit", "3")).toMatchObject({
    outcome: "scheduled",
  });
  expect(await json("schedules", "mail")).toMatchObject({
    items: [{ id: "nightly", cron: "@daily", noOverlap: true, limit: 3, runs: 0 }],
  });
  expect(await json("unschedule", "mail", "nightly")).toMatchObject({ outcome: "removed" });
  expect((await ropeway(["unschedule", "mail", "nightly"])).code).toBe(4);

  await json("update", "mail", "b", "--data", "3", "--priority", "-1", "--delay", "0");
  expect(await json("show", "mail", "b")).toMatchObject({ data: 3, priority: -1 });
  expect(await ropeway(["update", "mail", "b"])).toMatchObject({ code: 2 });
  expect(await json("workers", "mail")).toEqual({ items: [], cursor: null });
  expect(await json("rates", "mail")).toEqual({ items: [], cursor: null });
  expect(await json("free-key", "mail", "k")).toMatchObject({ outcome: "not held" });
  expect(await json("drain", "mail", "--older-than", "60000")).toMatchObject({ jobs: 0 });
  expect(await json("drain", "mail")).toMatchObject({ outcome: "drained", jobs: 2 });
  expect(await ropeway(["obliterate", "mail"])).toMatchObject({ code: 2 });
  expect(await json("obliterate", "mail", "--yes")).toMatchObject({ outcome: "obliterated" });
  expect(await json("list")).toEqual({ items: [], cursor: null });
});

test("a queue that does not exist is said to be unknown, and nothing is created", async () => {
  await json("add", "mail", "send");
  const before = await server.command("DBSIZE");
  for (const verb of ["pause", "resume", "drain", "workers", "limits", "schedules", "rates"]) {
    const said = await ropeway([verb, "mial"]);
    expect(said, verb).toMatchObject({ code: 4, stderr: expect.stringContaining("mail") });
  }
  expect(await server.command("DBSIZE")).toBe(before);
});

test("times have units: --delay 5s, --every 15m, --older-than 7d, a rate per 1s", async () => {
  const now = Number(((await server.command("TIME")) as string[])[0]) * 1_000;
  await json("add", "mail", "send", "--id", "a", "--delay", "10m");
  const { dueAt } = await json("show", "mail", "a");
  const due = typeof dueAt === "number" ? dueAt : Date.parse(dueAt);
  expect(due).toBeGreaterThanOrEqual(now + 600_000);
  expect(due).toBeLessThan(now + 1_200_000);
  await json("update", "mail", "a", "--delay", "1h");
  await json("schedule", "mail", "s", "send", "--every", "15m");
  expect(await json("schedules", "mail")).toMatchObject({ items: [{ everyMs: 900_000 }] });
  expect(await json("limits", "mail", "--rate", "500/1s")).toMatchObject({
    rate: { max: 500, perMs: 1_000 },
  });
  expect(await json("drain", "mail", "--older-than", "7d")).toMatchObject({ jobs: 0 });
  expect(await ropeway(["add", "mail", "send", "--delay", "soon"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--delay is "soon", but must be a number of milliseconds, or'),
  });
});
