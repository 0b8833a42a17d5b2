import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RedisServer, spawnScript, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";

const CLI = new URL("../../bin/ropeway.mjs", import.meta.url);
const KEY = Buffer.alloc(32, 7).toString("base64");

let server: RedisServer;
let home: string;

beforeAll(async () => {
  server = await startRedis();
  home = await mkdtemp(join(tmpdir(), "ropeway-node-"));
});

afterAll(async () => {
  await server.close();
  await rm(home, { recursive: true });
});

/** Starts a node that cannot start; resolves when its process has ended by itself. */
async function refusedNode(env: Record<string, string>): Promise<{ code: unknown; text: string }> {
  const own = { ROPEWAY_HOME: home, REDIS_URL: server.url, ROPEWAY_SECRET_KEY: KEY };
  const script = await spawnScript(CLI, {
    args: ["node", "--id", "node_a"],
    env: { ...own, ...env },
  });
  const { code } = await script.exited;
  return { code, text: script.log() };
}

test("a node with a key that is none ends, and names the setting", async () => {
  const { code, text } = await refusedNode({ ROPEWAY_SECRET_KEY: "short" });
  expect(text).toMatch(
    /cluster\.secretKey is "\*\*\*" in ROPEWAY_SECRET_KEY, but must be one or more keys of 32 random bytes/,
  );
  expect(code).toBe(2);
}, 60_000);

test.each(["no-host.invalid", "203.0.113.7", "http://x"])(
  "a node whose host is %s ends, and names the setting",
  async (host) => {
    const { code, text } = await refusedNode({ ROPEWAY_NODE_HOST: host });
    expect(text).toContain(`node.host is "${host}" in ROPEWAY_NODE_HOST, but must be an address`);
    expect(code).toBe(2);
  },
  60_000,
);

test("a node whose port is taken ends, and names the setting", async () => {
  const { code, text } = await refusedNode({ ROPEWAY_NODE_PORT: String(server.port) });
  expect(text).toMatch(new RegExp(`port ${server.port} .*ROPEWAY_NODE_PORT`));
  expect(code).not.toBe(0);
}, 60_000);
