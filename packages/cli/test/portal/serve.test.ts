import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { speak } from "../spoken.ts";

/** A portal hashes a password and loads much code before it is ready. */
const PATIENCE_MS = 60_000;
vi.setConfig({ testTimeout: PATIENCE_MS });

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis();
});

afterAll(() => server.close());

/** Runs `ropeway portal` until `look` has looked at what it printed when it was ready. */
async function whileServing(
  env: Record<string, string>,
  look: (ready: { url: string; merge?: string }) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const lines: string[] = [];
  const stdout = { write: (text: string) => lines.push(text) };
  const own = { REDIS_URL: server.url, ROPEWAY_PORT: "0", ROPEWAY_LOG_LEVEL: "silent" };
  const world = { env: { ...own, ...env }, signal: stop.signal, stdout };
  const serving = speak(["portal", "--json"], world);
  try {
    const ready = eventually(() => expect(lines).toHaveLength(1), { withinMs: PATIENCE_MS / 2 });
    await Promise.race([serving, ready]);
    await look(JSON.parse(lines.join("")));
  } finally {
    stop.abort("SIGINT");
    expect(await serving).toMatchObject({ code: 0, stderr: "" });
  }
}

test("the portal alone has no port for the merge queue", async () => {
  await whileServing({}, async ({ url, merge }) => {
    expect(merge).toBeUndefined();
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });
});

test("with merge.serve it takes pushes on a port of its own and delivers them where merge.allow allows it", async () => {
  const bodies: string[] = [];
  const receiver = createServer(async (request, response) => {
    for await (const chunk of request) bodies.push(String(chunk));
    response.end();
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const target = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const env = { REDIS_URL: server.url };
  const serve = { ROPEWAY_QUEUE_SERVE: "true", ROPEWAY_QUEUE_PORT: "0" };
  try {
    await whileServing(serve, async ({ merge = "" }) => {
      expect((await fetch(merge)).status).toBeLessThan(500);
      await speak(["merge", "push", "k", target, "1", "--merge-allow", "loopback"], { env });
      await eventually(async () => {
        const { stdout } = await speak(["merge", "letters"], { env });
        expect(stdout).toMatch(/must not be called: .*ROPEWAY_MERGE_ALLOW/);
      });
    });
    await whileServing({ ...serve, ROPEWAY_TARGETS: "loopback" }, async () => {
      await speak(["merge", "replay", "--all"], { env });
      await eventually(() => expect(bodies).toEqual(["[1]"]));
    });
  } finally {
    receiver.close();
  }
});
