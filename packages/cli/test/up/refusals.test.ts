// What `up` says when it cannot start: one sentence, a code, no stack, nothing left behind.
import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { freePort, otherServer, startRedis } from "@ropeway/testkit";
import { describe, expect, test, vi } from "vitest";
import { type Spoken, speak } from "../spoken.ts";
import { finish, makeHome, PATIENCE_MS, PROGRAMS } from "./started.ts";

vi.setConfig({ testTimeout: PATIENCE_MS });

async function refusalOf(env: Record<string, string>, ...args: string[]): Promise<Spoken> {
  await using home = await makeHome();
  const port = String(await freePort());
  const own = { ROPEWAY_HOME: home.path, ROPEWAY_PROGRAMS: PROGRAMS, ROPEWAY_PORT: port };
  const spoken = await speak(["up", ...args], { env: { PATH: process.env.PATH, ...own, ...env } });
  expect(spoken.stderr).not.toMatch(/^\s+at /m);
  const claims = await readdir(join(home.path, "up")).catch(() => []);
  expect(claims).toEqual([]);
  return { ...spoken, stderr: spoken.stderr.replaceAll(home.path, "HOME") };
}

test("a Redis that is down", async () => {
  const port = await freePort();
  const said = `ropeway: cannot connect to 127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}; check that server, or change REDIS_URL`;
  const env = { REDIS_URL: `redis://127.0.0.1:${port}` };
  expect(await refusalOf(env)).toEqual({ code: 3, stdout: "", stderr: `${said}\n` });
  await using home = await makeHome();
  expect(await finish(home.path, ["up"], env)).toEqual({ code: 3, signal: null, said, stdout: [] });
});

test("a wrong password", async () => {
  await using redis = await startRedis({ password: "right" });
  const env = { REDIS_URL: `redis://:wrong-one@127.0.0.1:${redis.port}` };
  const { code, stdout, stderr } = await refusalOf(env);
  expect({ code, stdout }).toEqual({ code: 3, stdout: "" });
  expect(stderr).toMatch(
    /^ropeway: 127\.0\.0\.1:\d+ refused the user or password: WRONGPASS .*; check that server, or change REDIS_URL\n$/,
  );
  expect(stderr).not.toContain("wrong-one");
});

const old = otherServer("redis-6.0");
describe.skipIf(old.reason)(`Redis 6.0 ${old.reason ?? ""}`, () => {
  test("a Redis that is too old", async () => {
    await using redis = await startRedis({ version: "redis-6.0" });
    const { code, stderr } = await refusalOf({ REDIS_URL: redis.url });
    expect(code).toBe(3);
    expect(stderr).toMatch(
      /^ropeway: 127\.0\.0\.1:\d+ is Redis 6\.0\.\d+, but Redis 6\.2 or Valkey 7\.2, or newer, is needed; check that server, or change REDIS_URL\n$/,
    );
  });
});

test("a port that was asked for and is taken", async () => {
  await using redis = await startRedis();
  const port = await freePort();
  const blocker = createServer().listen(port, "127.0.0.1");
  try {
    const env = { REDIS_URL: redis.url };
    const { code, stderr } = await refusalOf(env, "--port", String(port));
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: `ropeway: port ${port} is in use by another program: free it, or change portal.port (from --port)\n`,
    });
    // A start that failed has not used up the first admin, whose password would be lost.
    expect(await redis.command("DBSIZE")).toBe(0);
    const own = await refusalOf({ ROPEWAY_UP_REDIS_PORT: String(port) });
    expect(own.stderr).toBe(
      `ropeway: port ${port} is in use by another program: free it, or change up.redisPort (from ROPEWAY_UP_REDIS_PORT)\n`,
    );
  } finally {
    blocker.close();
  }
});

test("a bad setting, before anything is started", async () => {
  expect(await refusalOf({ REDIS_URL: "localhost" })).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^ropeway: redis\.url is "localhost" in REDIS_URL, but must be/),
  });
  expect(await refusalOf({ ROPEWAY_PORT: "http" })).toMatchObject({
    code: 2,
    stderr:
      'ropeway: portal.port is "http" in ROPEWAY_PORT, but must be a whole number from 0 to 65535\n',
  });
});

/** Whoever looks for this program before looking at all settings says that it is missing. */
const NO_REDIS = { PATH: "", ROPEWAY_REDIS_SERVER: "/no/such" };

test("a target that is none, before a Redis is looked for", async () => {
  const { code, stderr } = await refusalOf({ ...NO_REDIS, ROPEWAY_TARGETS: "10.0.0.0/99" });
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /^ropeway: merge\.allow is .*10\.0\.0\.0\/99.* in ROPEWAY_TARGETS, but must be /,
  );
});

test("a password or key that is refused, without repeating it, before a Redis is looked for", async () => {
  const fault = "but must be a string of 8 to 128 characters";
  expect(await refusalOf({ ...NO_REDIS, ROPEWAY_ADMIN_PASSWORD: "short" })).toMatchObject({
    code: 2,
    stderr: `ropeway: portal.adminPassword is "***" in ROPEWAY_ADMIN_PASSWORD, ${fault}\n`,
  });
  await using folder = await makeHome();
  await mkdir(folder.path, { recursive: true });
  const file = join(folder.path, "password");
  await writeFile(file, "short\n");
  expect(await refusalOf(NO_REDIS, "--portal-admin-password-file", file)).toMatchObject({
    code: 2,
    stderr: `ropeway: portal.adminPassword is "***" in --portal-admin-password-file, ${fault}\n`,
  });
  expect(await refusalOf({ ...NO_REDIS, ROPEWAY_QUEUE_SIGNING_KEYS: "whsec_short" })).toMatchObject(
    { code: 2, stderr: expect.stringMatching(/^ropeway: merge\.signingKeys is "\*\*\*" in /) },
  );
});

test("a server program that is not there", async () => {
  await using empty = await makeHome();
  await mkdir(empty.path, { recursive: true });
  const env = { ROPEWAY_PROGRAMS: join(empty.path, "none"), ROPEWAY_REDIS_SERVER: "/no/such" };
  const { code, stdout, stderr } = await refusalOf({ ...env, PATH: "" });
  expect({ code, stdout }).toEqual({ code: 3, stdout: "" });
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  expect(stderr).toContain("/no/such");
});

test("a server that ends at once is told with its own last words", async () => {
  await using folder = await makeHome();
  await mkdir(folder.path, { recursive: true });
  const server = join(folder.path, "redis-server");
  const script = `#!/bin/sh\n[ "$1" = --version ] && { echo 'Redis server v=7.0.0 sha=0'; exit; }\necho '1:M 01 Jan 2026 00:00:00.000 # Out of everything.'; exit 1\n`;
  await writeFile(server, script);
  await chmod(server, 0o755);
  expect(await refusalOf({ ROPEWAY_REDIS_SERVER: server })).toEqual({
    code: 1,
    stdout: "",
    stderr:
      "ropeway: the Redis of this home did not start: Out of everything (its log: HOME/logs/redis.log)\n",
  });
});

test("a full disk is told as that, with the folder it holds", async () => {
  await using folder = await makeHome();
  await mkdir(folder.path, { recursive: true });
  const server = join(folder.path, "redis-server");
  const script = `#!/bin/sh\n[ "$1" = --version ] && { echo 'Redis server v=7.0.0 sha=0'; exit; }\necho '1:M 01 Jan 2026 00:00:00.000 # Write error: No space left on device.'; echo bye; exit 1\n`;
  await writeFile(server, script);
  await chmod(server, 0o755);
  expect(await refusalOf({ ROPEWAY_REDIS_SERVER: server })).toEqual({
    code: 1,
    stdout: "",
    stderr: "ropeway: the disk that holds HOME/redis is full: free some space and start again\n",
  });
});

test("a home that cannot be written to", async () => {
  await using folder = await makeHome();
  await mkdir(folder.path, { recursive: true });
  const file = join(folder.path, "file");
  await writeFile(file, "");
  const { code, stderr } = await refusalOf({ ROPEWAY_HOME: file });
  expect(code).toBe(2);
  expect(stderr).toBe(
    `ropeway: cannot use ${file} as home (EEXIST): choose another one with ROPEWAY_HOME\n`,
  );
  expect(await readFile(file, "utf8")).toBe("");
});

test.skipIf(process.platform !== "linux")("a home where nothing can be made", async () => {
  expect(await refusalOf({ ROPEWAY_HOME: "/proc/ropeway/home" })).toEqual({
    code: 2,
    stdout: "",
    stderr:
      "ropeway: cannot use /proc/ropeway/home as home (ENOENT): choose another one with ROPEWAY_HOME\n",
  });
});
