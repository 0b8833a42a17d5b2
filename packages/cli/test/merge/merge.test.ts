import { Dispatcher, Inspector, MergeQueue } from "@ropeway/merge";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { EXIT } from "../../src/exit-code.ts";
import { speak } from "../spoken.ts";

const URL = "http://127.0.0.1:9/digest";

const { server, redis } = await redisForFile();
const queue = new MergeQueue(redis, { prefix: "ropeway:{merge}" });

beforeEach(() => server.command("FLUSHALL"));

const ropeway = (...args: string[]) =>
  speak(["merge", ...args], { env: { REDIS_URL: server.url, ROPEWAY_MERGE_ALLOW: "loopback" } });
// biome-ignore lint/suspicious/noExplicitAny: answers are looked at, not typed
const json = async (verb: string, ...args: string[]): Promise<any> => {
  const { code, stdout, stderr } = await ropeway(verb, "--json", ...args);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
};

test("an item is pushed, listed, peeked at, sent now and deleted", async () => {
  expect(await json("push", "k", URL, "1", "--ontime", "4000000000")).toMatchObject({
    key: "k",
    items: 1,
    at: "2096-10-02T07:06:40.000Z",
  });
  await json("push", "k", URL, "2", "--ontime", "+1h", "--update", "always");
  const [listed] = (await json("list")).items;
  expect(listed).toMatchObject({ key: `k ${URL} POST`, items: 2, state: "waiting" });
  expect(listed.at < "2096").toBe(true);
  expect(await json("list", "--search", "nothing")).toEqual({ items: [], cursor: null });
  expect(
    (await json("peek", "k", URL)).items[0].oldest.map((item: { body: string }) => item.body),
  ).toEqual(["1", "2"]);
  expect(await json("send-now", "k", URL)).toEqual({ outcome: "fired", items: 2 });
  expect((await new Inspector(queue).stats()).due).toBe(1);
  expect((await ropeway("list")).stdout).toContain(`k ${URL} POST`);
  expect(await json("delete", "k", URL)).toEqual({ outcome: "deleted", deleted: 2, sending: 0 });
  expect((await ropeway("peek", "k", URL)).stderr).toContain("nothing is queued");
});

test.each(["POST", "PUT", "PATCH", "DELETE", "GET", "get"])(
  "the URL is called by %s",
  async (method) => {
    expect(await json("push", "k", URL, "1", "--ontime", "+1h", "--method", method)).toMatchObject({
      items: 1,
    });
  },
);

test("single items are pushed and deleted by a key that starts with -", async () => {
  await json("push", "--ontime", "4000000000", "--", "-job", URL, "not json");
  await json("push", "--ontime", "4000000001", "--", "-job", URL, "2");
  const repeated = ["--ontime", "4000000002", "--idempotency-key", "k1", "--", "-job", URL, "3"];
  const first = await json("push", ...repeated);
  expect(await json("push", ...repeated)).toEqual(first);
  expect((await json("peek", "--", "-job", URL)).items).toHaveLength(3);
  expect(await json("delete", "--", "-job", URL)).toEqual({
    outcome: "deleted",
    deleted: 3,
    sending: 0,
  });
});

test("dead letters are listed and replayed, endpoints disabled and enabled, firing paused", async () => {
  const dispatcher = await new Dispatcher(queue, async () => ({
    kind: "dead",
    reason: "gone",
  })).start();
  await json("push", "a", URL, "1");
  await json("push", "b", URL, "2");
  await eventually(async () => expect((await json("letters")).items).toHaveLength(2));
  await dispatcher.close();
  const [first] = (await json("letters")).items;
  expect(first).toMatchObject({ reason: "gone", items: 1 });
  expect(await json("replay", first.id)).toEqual({ outcome: "replayed", letters: 1, items: 1 });
  expect(await json("replay", "--all")).toEqual({ outcome: "replayed", letters: 1, items: 1 });
  expect((await json("letters")).items).toEqual([]);
  expect((await ropeway("replay", "no-such")).stderr).toContain("no-such");
  expect((await json("endpoints", "--disable", URL)).items).toMatchObject([{ url: URL }]);
  expect((await ropeway("endpoints")).stdout).toContain("disabled");
  expect(await ropeway("endpoints", "--enable", `${URL}s`)).toEqual({
    code: 4,
    stdout: "",
    stderr: `ropeway: endpoint "${URL}s" not found\n`,
  });
  expect((await json("endpoints", "--enable", URL)).items).toEqual([]);
  expect(await json("pause")).toEqual({ outcome: "paused" });
  expect((await new Inspector(queue).stats()).paused).toBe(true);
  expect((await ropeway("list")).stderr).toContain("ropeway merge resume");
  expect(await json("resume")).toEqual({ outcome: "resumed", wasPaused: true });
});

test("one key or one endpoint is paused and resumed", async () => {
  await json("push", "k", URL, "1", "--ontime", "4000000000");
  expect(await json("pause", "k", URL)).toEqual({ outcome: "paused", keys: 1 });
  expect((await ropeway("list")).stdout).toContain("paused");
  expect((await ropeway("peek", "k", URL)).stdout).toContain("1 item, paused, fires");
  expect((await json("list")).items).toMatchObject([{ paused: true, state: "waiting" }]);
  expect(await json("resume", "k", URL)).toEqual({ outcome: "resumed", keys: 1 });
  expect((await ropeway("resume", "k", URL)).stdout).toBe("it was not paused\n");
  await json("push", "--ontime", "4000000000", "--", "-job", URL, "2");
  await json("push", "--ontime", "4000000000", "--", "-job", URL, "3");
  expect(await json("pause", "--", "-job", URL)).toEqual({ outcome: "paused", keys: 2 });
  expect(await json("resume", "--", "-job", URL)).toEqual({ outcome: "resumed", keys: 2 });
  expect((await ropeway("pause", "k")).code).toBe(2);
  expect((await json("endpoints", "--pause", URL)).items).toMatchObject([
    { url: URL, paused: true },
  ]);
  expect((await ropeway("endpoints")).stdout).toContain("paused");
  expect((await json("endpoints", "--enable", URL)).items).toEqual([]);
});

test("a replay of all meets each letter once, even if it dies again at once", async () => {
  const dispatcher = await new Dispatcher(queue, async () => ({
    kind: "dead",
    reason: "gone",
  })).start();
  for (const name of ["a", "b", "c"]) await json("push", name, URL, "1");
  await eventually(async () => expect((await json("letters")).items).toHaveLength(3));
  expect(await json("replay", "--all")).toEqual({ outcome: "replayed", letters: 3, items: 3 });
  await eventually(async () => expect((await json("letters")).items).toHaveLength(3));
  await dispatcher.close();
});

test("a dead letter is shown with its items, and discarded", async () => {
  const dispatcher = await new Dispatcher(queue, async () => ({
    kind: "dead",
    reason: "gone",
  })).start();
  await json("push", "a", URL, '{"esc":"\\u001b[2J"}');
  await json("push", "b", `${URL}2`, "2");
  await eventually(async () => expect((await json("letters")).items).toHaveLength(2));
  await dispatcher.close();
  const [letter] = (await json("letters", "--url", URL)).items;
  expect(await json("letter", letter.id)).toMatchObject({ reason: "gone", oldest: [{ size: 19 }] });
  expect((await json("letters", "--since", "2026-01-01T00:00Z")).items).toHaveLength(2);
  expect((await json("letters", "--until", "2026-01-01T00:00Z")).items).toHaveLength(0);
  expect(await ropeway("discard", "--until", "yesterday")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--until is "yesterday"'),
  });
  const discarded = { outcome: "discarded", letters: 1, items: 1 };
  expect(await json("discard", "--url", `${URL}2`)).toEqual(discarded);
  expect(await json("discard", letter.id)).toEqual(discarded);
  expect((await ropeway("letter", letter.id)).code).toBe(4);
});

test("an endpoint is limited and gets a secret, and both are shown", async () => {
  await json("endpoint", "limit", URL, "--rate", "5", "--concurrency", "2");
  expect((await json("endpoint", "rotate-secret", URL)).secret).toMatch(/^whsec_/);
  const shown = { ratePerSecond: 5, concurrency: 2, secrets: 1, at: null };
  expect(await json("endpoint", "show", URL)).toMatchObject(shown);
  await json("endpoint", "remove-secrets", URL);
  expect(await json("endpoint", "show", URL)).toMatchObject({ concurrency: 2, secrets: 0 });
  await json("endpoint", "limit", URL);
  expect((await ropeway("endpoint", "show", URL)).code).toBe(4);
  expect((await ropeway("endpoint", "mend", URL)).code).toBe(2);
});

test("control characters of keys and bodies are printed escaped", async () => {
  await json("push", "\u001b]0;owned\u0007", URL, "1", "--ontime", "+1h");
  await queue.push("raw \u001b[2J", "\u001b[31mred", { at: 4_000_000_000_000 });
  const { stdout } = await ropeway("list");
  expect(stdout).toContain("owned");
  expect(stdout).not.toContain("\u001b");
});

test("an address that must not be called is refused before anything is stored", async () => {
  const env = { REDIS_URL: server.url };
  const refused = await speak(["merge", "push", "k", "http://169.254.169.254/", "1"], { env });
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining("must not be called") });
  expect((await new Inspector(queue).stats()).keys).toBe(0);
});

test("`ropeway queue`, the name of earlier versions, keeps working", async () => {
  const { code, stdout } = await speak(["queue", "stats", "--json"], {
    env: { REDIS_URL: server.url },
  });
  expect({ code, keys: JSON.parse(stdout).keys }).toEqual({ code: 0, keys: 0 });
});

test.each([
  ["URL", ["push", "k", "nowhere", "1"]],
  ["JSON", ["push", "k", URL, "{nope"]],
  ["--ontime", ["push", "k", URL, "1", "--ontime", "soon"]],
  ["--limit", ["list", "--limit", "none"]],
  ["--all", ["replay"]],
  ["method", ["peek", "k", URL, "--method", "BREW"]],
])("a wrong %s is named and nothing is stored", async (word, args) => {
  const { code, stderr } = await ropeway(...args);
  expect(code).toBe(2);
  expect(stderr).toContain(word);
  expect(await server.command("KEYS", "*")).toEqual([]);
});

test("recurring pushes are scheduled, listed, paused, resumed and unscheduled", async () => {
  const cron = ["--cron", "0 9 * * 1", "--time-zone", "Europe/Berlin", "--header", "x-tenant: 7"];
  const written = await json("schedule", "weekly", "k", URL, "1", ...cron);
  expect(written).toMatchObject({ outcome: "scheduled", id: "weekly", state: "active" });
  const { items, cursor } = await json("schedules");
  expect(cursor).toBeNull();
  expect(items).toMatchObject([
    {
      ...{ id: "weekly", runs: 0, lastAt: null, nextAt: written.nextAt, error: null },
      schedule: { body: "1", cron: "0 9 * * 1", request: { headers: { "x-tenant": "7" } } },
    },
  ]);
  expect((await ropeway("schedules")).stdout).toContain("0 9 * * 1 (Europe/Berlin)");
  expect(await json("show-schedule", "weekly")).toEqual(items[0]);
  expect((await ropeway("show-schedule", "weekly")).stdout).toMatch(/^url +http:.*\n.*\nbody +1$/m);
  await json("pause-schedule", "weekly");
  expect(await json("schedule", "weekly", "k", URL, "2", ...cron)).toMatchObject({
    ...{ state: "paused", nextAt: null },
  });
  await json("resume-schedule", "weekly");
  expect((await json("schedules")).items).toMatchObject([{ state: "active" }]);
  expect(await json("unschedule", "weekly")).toEqual({ outcome: "removed", id: "weekly" });
  expect((await ropeway("unschedule", "weekly")).code).toBe(EXIT.notFound.code);
  expect((await ropeway("pause-schedule", "weekly")).code).toBe(EXIT.notFound.code);
  expect((await ropeway("show-schedule", "weekly")).code).toBe(EXIT.notFound.code);
  expect((await ropeway("schedule", "x", "k", URL, "1", "--every", "5")).code).not.toBe(0);
  expect((await ropeway("schedules")).stderr).toContain("no schedules");
});
