import { once } from "node:events";
import { existsSync } from "node:fs";
import { connect } from "node:tls";
import { startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("a server answers on a port of its own and leaves nothing behind when closed", async () => {
  const redis = await startRedis();
  expect(redis.url).toBe(`redis://127.0.0.1:${redis.port}`);
  await expect(redis.command("PING")).resolves.toBe("PONG");
  const { pid, dir } = redis;
  expect(await redis.command("INFO", "server")).toContain(`process_id:${pid}\r\n`);
  await redis.close();
  await redis.close();
  expect(alive(pid)).toBe(false);
  expect(existsSync(dir)).toBe(false);
});

test("servers started together do not share a port", async () => {
  const servers = await Promise.all(Array.from({ length: 5 }, () => startRedis()));
  expect(new Set(servers.map(({ port }) => port)).size).toBe(5);
  await Promise.all(servers.map((server) => server.command("SET", "me", server.port)));
  const names = await Promise.all(servers.map((server) => server.command("GET", "me")));
  expect(names).toEqual(servers.map(({ port }) => String(port)));
  await Promise.all(servers.map((server) => server.close()));
});

test("a port that is taken is an error when it was asked for", async () => {
  await using first = await startRedis();
  await expect(startRedis({ port: first.port })).rejects.toMatchObject({
    code: "START_FAILED",
    message: expect.stringContaining("Address already in use"),
  });
});

test("a setting that Redis refuses is reported with Redis's own words", async () => {
  await expect(startRedis({ config: ["no-such-setting 1"] })).rejects.toThrow("no-such-setting");
});

test("a server on a socket listens on no port", async () => {
  await using redis = await startRedis({ socket: true });
  expect(redis.url).toBe(`unix://${redis.dir}/redis.sock`);
  await expect(redis.command("PING")).resolves.toBe("PONG");
  await expect(redis.command("CONFIG", "GET", "port")).resolves.toEqual(["port", "0"]);
});

test("a password is asked for and is part of the URL", async () => {
  await using redis = await startRedis({ password: "open sesame" });
  expect(redis.url).toBe(`redis://:open%20sesame@127.0.0.1:${redis.port}`);
  await expect(redis.command("PING")).resolves.toBe("PONG");
});

test("restart keeps address and data without an append-only file", async () => {
  await using redis = await startRedis();
  const { url, pid } = redis;
  await redis.command("SET", "k", "v");
  await redis.restart();
  expect(redis.url).toBe(url);
  expect(redis.pid).not.toBe(pid);
  await expect(redis.command("GET", "k")).resolves.toBe("v");
});

test("kill9 loses what only memory had, and nothing with an append-only file", async () => {
  await using forgetful = await startRedis();
  await using faithful = await startRedis({ appendonly: true });
  for (const server of [forgetful, faithful]) {
    await server.command("SET", "k", "v");
    await server.kill9();
    expect(server.running).toBe(false);
    await expect(server.command("PING")).rejects.toThrow("ECONNREFUSED");
    await server.start();
  }
  await expect(forgetful.command("GET", "k")).resolves.toBeNull();
  await expect(faithful.command("GET", "k")).resolves.toBe("v");
});

test("a paused server answers only when resumed", async () => {
  await using redis = await startRedis();
  await redis.command("PING");
  redis.pause();
  let answered = false;
  const answer = redis.command("PING").then(() => {
    answered = true;
  });
  const otherWork = await startRedis();
  await otherWork.close();
  expect(answered).toBe(false);
  redis.resume();
  await answer;
  expect(answered).toBe(true);
});

test("a server with TLS is reached with its own authority only", async () => {
  await using redis = await startRedis({ tls: true, password: "p" });
  expect(redis.url).toBe(`rediss://:p@127.0.0.1:${redis.port}`);
  await expect(redis.command("PING")).resolves.toBe("PONG");
  const stranger = connect({ host: redis.host, port: redis.port });
  await expect(once(stranger, "secureConnect")).rejects.toMatchObject({
    code: "DEPTH_ZERO_SELF_SIGNED_CERT",
  });
});
