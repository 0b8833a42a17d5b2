import { Dispatcher, Inspector, MergeQueue } from "@ropeway/merge";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { speak } from "../spoken.ts";

const URL = "http://127.0.0.1:9/digest";

const { server, redis } = await redisForFile();
const queue = new MergeQueue(redis, { prefix: "ropeway:{merge}" });

beforeEach(() => server.command("FLUSHALL"));

const ropeway = (...args: string[]) =>
  speak(["queue", ...args], { env: { REDIS_URL: server.url } });
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
    ontime: 4_000_000_000,
  });
  await json("push", "k", URL, "2", "--ontime", "+1h", "--update", "always");
  const [listed] = await json("list");
  expect(listed).toMatchObject({ key: `k ${URL} POST`, items: 2, state: "waiting" });
  expect(listed.ontime).toBeLessThan(4_000_000_000);
  expect(await json("list", "--search", "nothing")).toEqual([]);
  expect(
    (await json("peek", "k", URL))[0].oldest.map((item: { body: string }) => item.body),
  ).toEqual(["1", "2"]);
  expect(await json("send-now", "k", URL)).toEqual({ items: 2 });
  expect((await new Inspector(queue).stats()).due).toBe(1);
  expect((await ropeway("list")).stdout).toContain(`k ${URL} POST`);
  expect(await json("delete", "k", URL)).toEqual({ deleted: 2, sending: 0 });
  expect((await ropeway("peek", "k", URL)).stdout).toBe("nothing is queued\n");
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
  expect(await json("peek", "--", "-job", URL)).toHaveLength(3);
  expect(await json("delete", "--", "-job", URL)).toEqual({ deleted: 3, sending: 0 });
});

test("dead letters are listed and replayed, endpoints disabled and enabled, firing paused", async () => {
  const dispatcher = await Dispatcher.start(queue, async () => ({ kind: "dead", reason: "gone" }));
  await json("push", "a", URL, "1");
  await json("push", "b", URL, "2");
  await eventually(async () => expect(await json("letters")).toHaveLength(2));
  await dispatcher.close();
  const [first] = await json("letters");
  expect(first).toMatchObject({ reason: "gone", items: 1 });
  expect(await json("replay", first.id)).toEqual({ letters: 1, items: 1 });
  expect(await json("replay", "--all")).toEqual({ letters: 1, items: 1 });
  expect(await json("letters")).toEqual([]);
  expect((await ropeway("replay", "no-such")).stderr).toContain("no-such");
  expect(await json("endpoints", "--disable", URL)).toMatchObject([{ url: URL }]);
  expect((await ropeway("endpoints")).stdout).toContain("disabled");
  expect(await ropeway("endpoints", "--enable", `${URL}s`)).toEqual({
    code: 4,
    stdout: "",
    stderr: `ropeway: there is no receiver "${URL}s"\n`,
  });
  expect(await json("endpoints", "--enable", URL)).toEqual([]);
  expect(await json("pause")).toEqual({ paused: true });
  expect((await new Inspector(queue).stats()).paused).toBe(true);
  expect((await ropeway("list")).stderr).toContain("ropeway queue resume");
  expect(await json("resume")).toEqual({ paused: false });
});

test("one key or one receiver is paused and resumed", async () => {
  await json("push", "k", URL, "1", "--ontime", "4000000000");
  expect(await json("pause", "k", URL)).toEqual({ paused: true, keys: 1, items: 1 });
  expect((await ropeway("list")).stdout).toContain("paused");
  expect((await ropeway("peek", "k", URL)).stdout).toContain("1 item(s), paused, fires");
  expect(await json("list")).toMatchObject([{ paused: true, state: "waiting" }]);
  expect(await json("resume", "k", URL)).toEqual({ paused: false, keys: 1 });
  expect((await ropeway("resume", "k", URL)).stdout).toBe("it was not paused\n");
  await json("push", "--ontime", "4000000000", "--", "-job", URL, "2");
  await json("push", "--ontime", "4000000000", "--", "-job", URL, "3");
  expect(await json("pause", "--", "-job", URL)).toEqual({ paused: true, keys: 2, items: 2 });
  expect(await json("resume", "--", "-job", URL)).toEqual({ paused: false, keys: 2 });
  expect((await ropeway("pause", "k")).code).toBe(2);
  expect(await json("endpoints", "--pause", URL)).toMatchObject([{ url: URL, paused: true }]);
  expect((await ropeway("endpoints")).stdout).toContain("paused");
  expect(await json("endpoints", "--enable", URL)).toEqual([]);
});

test("a replay of all meets each letter once, even if it dies again at once", async () => {
  const dispatcher = await Dispatcher.start(queue, async () => ({ kind: "dead", reason: "gone" }));
  for (const name of ["a", "b", "c"]) await json("push", name, URL, "1");
  await eventually(async () => expect(await json("letters")).toHaveLength(3));
  expect(await json("replay", "--all")).toEqual({ letters: 3, items: 3 });
  await eventually(async () => expect(await json("letters")).toHaveLength(3));
  await dispatcher.close();
});

test.each([
  ["a URL", ["push", "k", "nowhere", "1"]],
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
