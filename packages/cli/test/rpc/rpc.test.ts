import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Spoken, speak } from "../spoken.ts";

let server: RedisServer;
const stop = new AbortController();
const serving: Promise<Spoken>[] = [];

const ropeway = (...args: string[]) => speak(["rpc", ...args], { env: { REDIS_URL: server.url } });
const printed = async (...args: string[]) => {
  const { code, stdout, stderr } = await ropeway(...args);
  if (code !== 0) throw new Error(stderr);
  return stdout;
};

function serveDemo(...args: string[]): void {
  const world = { env: { REDIS_URL: server.url }, signal: stop.signal };
  serving.push(speak(["rpc", "serve-demo", ...args], world));
}

beforeAll(async () => {
  server = await startRedis();
  serveDemo("--ns", "shop", "--node", "n1", "--group", "g");
  serveDemo("--dialect", "kw", "--prefix", "p", "--node", "n2");
  await eventually(async () => expect(await printed("list")).toMatch(/^shop\/demo\t1\t/));
});

afterAll(async () => {
  stop.abort("SIGINT");
  for (const { code, stdout } of await Promise.all(serving)) {
    expect(code).toBe(0);
    expect(stdout).toMatch(/^serving .*\/demo as n\d; Ctrl-C stops it\n$/);
  }
  await server.close();
});

test("a call prints its result as JSON, in both wires", async () => {
  expect(await printed("call", "shop/demo.add", "[1,2]")).toBe("3\n");
  expect(await printed("call", "shop/demo.add", '{"a":1,"b":2}')).toBe("3\n");
  expect(await printed("call", "shop/demo.echo", '[{"x":[null]}]')).toBe('{"x":[null]}\n');
  expect(await printed("call", "shop/demo.whoami")).toBe('"n1"\n');
  const kw = ["--dialect", "kw", "--prefix", "p"];
  expect(await printed("call", ...kw, "add", '{"a":1,"b":2}')).toBe("3\n");
  expect(await printed("call", ...kw, "count", '{"n":3}')).toBe("[1,2,3]\n");
});

test("streams print a line per item, sessions find their node, progress goes to standard error", async () => {
  expect(await printed("call", "--stream", "shop/demo.count", "[3]")).toBe("1\n2\n3\n");
  expect(await printed("call", "--session", "g:me", "shop/demo.whoami")).toBe('"n1"\n');
  const { stdout, stderr } = await ropeway("call", "--progress", "shop/demo.slow", "[0.05]");
  expect(stdout).toBe('"took 0.05 s"\n');
  expect(stderr).toContain("100 % step 10 of 10");
});

test("a call is submitted, followed, polled and cancelled, in both wires", async () => {
  const kw = ["--dialect", "kw", "--prefix", "p"];
  const ticket = (await printed("submit", "shop/demo.slow", "[0.05]")).trim();
  expect(ticket).toMatch(/^shop\/demo\.slow\/[0-9a-f-]+$/);
  const followed = await ropeway("poll", ticket, "--progress", "--wait", "10s");
  expect(followed).toMatchObject({ code: 0, stdout: '"took 0.05 s"\n' });
  expect(followed.stderr).toContain("100 % step 10 of 10");
  const other = JSON.parse(await printed("submit", "--json", ...kw, "add", '{"a":1,"b":2}'));
  expect(await printed("poll", ...kw, other.ticket, "--wait", "10s")).toBe("3\n");
  const long = (await printed("submit", "shop/demo.slow", "[60]")).trim();
  expect(await ropeway("poll", long)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("timed out after 0 ms"),
  });
  expect(JSON.parse(await printed("cancel", long, "--json"))).toEqual({
    ...{ outcome: "cancelled", ticket: long },
  });
  expect(await ropeway("poll", long, "--wait", "10s")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("cancelled"),
  });
  expect(await printed("notify", "shop/demo.echo", "[1]")).toBe("shop/demo.echo called\n");
  expect((await ropeway("poll", "nonsense")).code).toBe(2);
});

test("the workers of a service are listed", async () => {
  expect(JSON.parse(await printed("workers", "shop/demo", "--json")).items).toMatchObject([
    { node: "n1", group: "g", since: expect.stringMatching(/^20/) },
  ]);
  expect(await ropeway("workers", "shop/demos")).toMatchObject({
    code: 4,
    stderr: expect.stringContaining("did you mean shop/demo?"),
  });
});

test("a failing call exits with 1 and says why; a wrong command line with 2", async () => {
  const failed = await ropeway("call", "shop/demo.fail", '["no way"]');
  expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining("no way") });
  const wrong = await ropeway("call", "shop/demo.add", '[1,"x"]');
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('b is "x"') });
  for (const args of [
    ["call", "shop/demo"],
    ["call", "shop/demo.add", "1"],
    ["call", "shop/demo.add", "[1"],
    ["call", "shop/demo.add", "--timeout", "soon"],
  ]) {
    expect((await ropeway(...args)).code, args.join(" ")).toBe(2);
  }
});

test("what nobody serves is told as that and exits with 1, in both wires", async () => {
  const soon = ["--timeout", "50"];
  expect(await ropeway("call", "shop/nobody.add", "[1]", ...soon)).toEqual({
    code: 1,
    stdout: "",
    stderr:
      "ropeway: the call of nobody.add timed out after 50 ms: no live worker serves shop/nobody; `ropeway rpc list` prints the services\n",
  });
  const stream = await ropeway("call", "shop/nobody.count", "[1]", "--stream", "--json", ...soon);
  expect(JSON.parse(stream.stderr)).toMatchObject({ error: { code: "UNAVAILABLE" } });
  const kw = await ropeway("call", "--dialect", "kw", "--prefix", "other", "add", "{}", ...soon);
  expect(kw.stderr).toMatch(
    /: no live worker serves anything under the prefix other; `ropeway rpc list`/,
  );
  // The worker is there and only slow, an hour: however late this process is, it cannot be done.
  const slow = await ropeway("call", "shop/demo.slow", "[3600]", ...soon);
  expect(slow).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/ timed out( after 50 ms)?\n$/),
  });
  expect(await ropeway("describe", "shop/demos")).toEqual({
    code: 4,
    stdout: "",
    stderr: 'ropeway: service "shop/demos" not found: did you mean shop/demo?\n',
  });
});

test("services are listed, described and counted", async () => {
  const listed = { service: "shop/demo", workers: ["n1"], waiting: 0, inFlight: 0 };
  expect(JSON.parse(await printed("list", "--json"))).toMatchObject({
    items: [listed],
    cursor: null,
  });
  expect(await printed("list", "--ns", "shop")).toContain("shop/demo");
  expect(await printed("describe", "shop/demo")).toContain(
    "count(n) -> any (stream)  A stream of the numbers from 1 to n.",
  );
  const counted = JSON.parse(await printed("stats", "--json"));
  expect(counted).toMatchObject({ cursor: null });
  expect(counted.items[0]).toMatchObject({ node: "n1", perSecond: expect.any(Number) });
});

test("a demo whose Redis goes away says so in one line, and in another that it is back", async () => {
  await using away = await startRedis();
  const end = new AbortController();
  const env = { REDIS_URL: away.url };
  const demo = speak(["rpc", "serve-demo", "--ns", "away"], { env, signal: end.signal });
  const call = () => speak(["rpc", "call", "away/demo.add", "[1,2]"], { env });
  expect(await call()).toMatchObject({ code: 0, stdout: "3\n" });
  await away.kill9();
  await new Promise((resolve) => setTimeout(resolve, 1_000)); // it tries again and again meanwhile
  await away.start();
  await eventually(async () => expect(await call()).toMatchObject({ code: 0, stdout: "3\n" }));
  end.abort("SIGINT");
  const { code, stderr } = await demo;
  expect(code).toBe(0);
  const [lost, back, ...more] = stderr.trim().split("\n");
  expect(lost).toMatch(/; reconnecting$/);
  expect(back).toMatch(/^connected to .* again$/);
  expect(more).toEqual([]);
});
