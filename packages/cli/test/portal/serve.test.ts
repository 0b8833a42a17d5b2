import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { openRedisStore } from "@ropeway/cluster";
import { keys } from "@ropeway/cluster/internal";
import { connect } from "@ropeway/core";
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

test(
  "it ends although receivers hang, and gives their batches back",
  async () => {
    let requests = 0;
    const silent = createServer(() => {
      requests += 1;
    }).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const target = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
    const service = Buffer.from(target).toString("base64url");
    const env = {
      ...{ ROPEWAY_MERGE_SERVE: "true", ROPEWAY_MERGE_PORT: "0", ROPEWAY_MERGE_ALLOW: "loopback" },
      ROPEWAY_PREFIX: "hanging",
    };
    await whileServing(env, async ({ merge }) => {
      for (const key of ["a", "b", "c"]) {
        const path = `${merge}/v3/queue/${key}/POST/${service}`;
        expect((await fetch(path, { method: "POST", body: "1" })).status).toBe(202);
      }
      await eventually(() => expect(requests).toBe(3));
    });
    silent.closeAllConnections();
    silent.close();
    expect(await server.command("ZCARD", "hanging:{merge}:timer")).toBe(3);
    expect(await server.command("KEYS", "hanging:*:locker")).toEqual([]);
  },
  2 * PATIENCE_MS,
);

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

test("a portal that crashed starts again at its port while the cluster still has its record", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  taken.close();
  await once(taken, "close");
  await using redis = await connect(server.url);
  await using store = openRedisStore(redis);
  // What kill -9 leaves behind. It is there until the new portal listens, and a lease longer.
  const id = `portal_${hostname().replace(/[^\w.-]/g, "_")}_${port}`;
  const key = keys.node("portal", id);
  const { id: lease } = await store.grant(3_000);
  const former = { nodetype: "portal", nodeid: id, nodeaddr: "127.0.0.1", nodeport: port };
  const record = { ...former, online: true, lastreporttime: Date.now() };
  await store.put(key, JSON.stringify(record), lease);
  const listens = eventually(
    async () => {
      await store.keepAlive(lease);
      expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
    },
    { withinMs: PATIENCE_MS / 2 },
  );
  await whileServing({ ROPEWAY_PORT: String(port) }, async ({ url }) => {
    await listens;
    expect(url).toBe(`http://127.0.0.1:${port}`);
    expect((await store.get(key))?.lease).not.toBe(lease);
  });
});
