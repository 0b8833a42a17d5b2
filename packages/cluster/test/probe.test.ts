/** Health checks of a node that hangs: the connection is taken, and nothing comes. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { answers } from "../src/inspection/probe.ts";

/** A server whose responses the test gives. */
async function hangingServer(answer: (response: ServerResponse, count: number) => void) {
  let count = 0;
  const server = createServer((_, response) => answer(response, ++count));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/healthz`,
    count: () => count,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const PLAN = { nodeId: "node_a", probes: 3, probeEveryMs: 10 };

it("does not wait for a check that hangs before it begins the next one", async () => {
  await using server = await hangingServer((response, count) => {
    if (count === 3) response.end(JSON.stringify({ nodeId: "node_a" }));
  });
  const { signal } = new AbortController();
  // With checks one after the other this would take two minutes.
  const plan = { ...PLAN, url: server.url, probeTimeoutMs: 60_000, signal };
  expect(await answers(plan)).toBe(true);
  expect(server.count()).toBe(3);
});

it("counts a node as down after all checks, and asks no more than needed", async () => {
  await using silent = await hangingServer(() => {});
  const { signal } = new AbortController();
  const plan = { ...PLAN, probeTimeoutMs: 200, signal };
  expect(await answers({ ...plan, url: silent.url })).toBe(false);
  expect(silent.count()).toBe(3);
  await using healthy = await hangingServer((response) => {
    response.end(JSON.stringify({ nodeId: "node_a" }));
  });
  const patient = { ...plan, url: healthy.url, probeEveryMs: 60_000, probeTimeoutMs: 60_000 };
  expect(await answers(patient)).toBe(true);
  expect(healthy.count()).toBe(1);
});

it("says nothing about a node when the round is over", async () => {
  const round = new AbortController();
  await using server = await hangingServer(() => round.abort());
  const plan = { ...PLAN, url: server.url, probeTimeoutMs: 60_000, signal: round.signal };
  await expect(answers(plan)).rejects.toThrow();
});
