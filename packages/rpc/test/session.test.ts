import { eventually, spawnScript } from "@ropeway/testkit";
import { expect, test } from "vitest";
import type { CallContext } from "../src/index.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const NODE = new URL("./node.fixture.ts", import.meta.url);

const who = {
  whoami: (_params: unknown, { node, session }: CallContext) => ({ node, ...session }),
};

function node(name: string, heartbeatMs = 1_000) {
  return stage.serve(who, { node: name, group: "g", heartbeatMs });
}

test("calls of a session stay on one node, and only the first of them is new there", async () => {
  await Promise.all([node("n1"), node("n2"), node("n3")]);
  const session = (await stage.client()).session("g", "c1");
  const first = (await session.call("demo.whoami")) as { node: string; epoch: number };
  expect(first).toMatchObject({ group: "g", client: "c1", isNew: true });
  expect(first.epoch).toBeGreaterThan(Date.now() - 60_000); // the clock is its floor
  const more = await Promise.all(Array.from({ length: 20 }, () => session.call("demo.whoami")));
  for (const answer of more) expect(answer).toEqual({ ...first, isNew: false });
  await expect(session.node()).resolves.toBe(first.node);
});

test("different sessions spread over the nodes", async () => {
  await Promise.all([node("n1"), node("n2"), node("n3")]);
  const client = await stage.client();
  const nodes = await Promise.all(
    Array.from({ length: 30 }, (_, i) => client.session("g", `c${i}`).node()),
  );
  expect(new Set(nodes).size).toBeGreaterThan(1);
});

test("a hundred callers that find the node gone agree on one other node", async () => {
  const [n1] = await Promise.all([node("n1"), node("n2"), node("n3")]);
  await stage.server.command("SET", "/api/t/sess_map/g:c1", "g:n1");
  const clients = await Promise.all(Array.from({ length: 10 }, () => stage.client()));
  const sessions = Array.from({ length: 100 }, (_, i) => clients[i % 10]?.session("g", "c1"));
  const call = () => Promise.all(sessions.map((session) => session?.call("demo.whoami")));
  const before = (await call()) as { node: string; epoch: number }[];
  expect(new Set(before.map((answer) => answer.node))).toEqual(new Set(["n1"]));
  await n1.close();
  const after = (await call()) as { node: string; epoch: number; isNew: boolean }[];
  expect(new Set(after.map((answer) => answer.node)).size).toBe(1);
  expect(after[0]?.node).not.toBe("n1");
  expect(new Set(after.map((answer) => answer.epoch)).size).toBe(1);
  expect(after.filter((answer) => answer.isNew)).toHaveLength(1);
});

test("calls that wait for a killed node are run once by the next, none by two", async () => {
  await using doomed = await spawnScript(NODE, { args: [stage.server.url, "n1"] });
  await doomed.waitForLine(/^ready/);
  const client = await stage.client({ timeoutMs: 60_000 });
  const session = client.session("g", "c1");
  await expect(session.call("demo.whoami")).resolves.toMatchObject({ node: "n1" });
  await node("n2");
  await eventually(async () => {
    const info = String(await stage.server.command("INFO", "clients"));
    expect(info).toMatch(/blocked_clients:3\b/); // both nodes and the client wait for messages
  });
  doomed.pause(); // it runs nothing more, but its key still lives
  const abort = new AbortController();
  const answers: unknown[] = [];
  const calls = Array.from({ length: 50 }, async () => {
    answers.push(await session.call("demo.whoami", [], { signal: abort.signal }));
  });
  const settled = Promise.allSettled(calls);
  await eventually(async () => {
    expect(await stage.server.command("LLEN", "/api/t/sess_req/g:n1/demo")).toBe(49);
  });
  await doomed.kill9();
  // One had been handed to the dead process already: plain calls run at most once.
  await eventually(() => expect(answers).toHaveLength(49), { withinMs: 15_000 });
  abort.abort();
  const outcomes = await settled;
  expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(1);
  for (const answer of answers) expect(answer).toMatchObject({ node: "n2" });
  expect(answers.filter((answer) => (answer as { isNew: boolean }).isNew)).toHaveLength(1);
});

test.each(["BLMPOP", "plainPop"])(
  "a node that was stopped for longer than its life refuses the calls it had popped (%s)",
  async (mode) => {
    await using sleeper = await spawnScript(NODE, { args: [stage.server.url, "n1", mode] });
    await sleeper.waitForLine(/^ready/);
    const client = await stage.client({ timeoutMs: 15_000 });
    const session = client.session("g", "c1");
    await expect(session.call("demo.whoami")).resolves.toMatchObject({ node: "n1" });
    sleeper.pause();
    const call = session.call("demo.whoami"); // handed by Redis to a process that does not run
    call.catch(() => {});
    await node("n2");
    await eventually(async () => {
      expect(await stage.server.command("GET", "/api/t/sess_map/g:c1")).toBe("g:n2");
    });
    sleeper.resume();
    await expect(call).resolves.toMatchObject({ node: "n2", isNew: true });
  },
);

test("without a live node a session call waits for one, or fails at once if told so", async () => {
  const client = await stage.client({ timeoutMs: 5_000 });
  const call = client.session("g", "c1").call("demo.whoami");
  const strict = await stage.client({ whenDown: "fail" });
  await expect(strict.session("g", "c1").call("demo.whoami")).rejects.toMatchObject({
    code: "UNAVAILABLE",
  });
  await node("n1");
  await expect(call).resolves.toMatchObject({ node: "n1" });
});

test("a map entry of another type is a typed error", async () => {
  await node("n1");
  await stage.server.command("LPUSH", "/api/t/sess_map/g:c1", "x");
  const session = (await stage.client()).session("g", "c1");
  await expect(session.call("demo.whoami")).rejects.toMatchObject({ code: "WRONG_KEY_TYPE" });
});
