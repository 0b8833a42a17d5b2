// Temporary folders, small executables and one real Redis for this package's tests.
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import { type ProvideOptions, provide } from "../src/index.ts";

/** An empty folder that is gone after the test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "ropeway-provide-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** Writes an executable shell script and returns its path. */
export async function script(path: string, body: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `#!/bin/sh\n${body}\n`);
  await chmod(path, 0o755);
  return path;
}

/** Writes an executable that is the real redis-server, under any name. */
export async function realRedis(path: string): Promise<string> {
  const { command } = await provide("redis-server");
  return script(path, `exec "${command[0]}" "$@"`);
}

/** Writes an executable that says it is a redis-server of that version. */
export async function redisOfVersion(path: string, version: string): Promise<string> {
  return script(path, `echo "Redis server v=${version} sha=00000000:0"`);
}

/** Options with which nothing is found: no PATH, an empty folder and a network that refuses every connection. */
export async function nowhere(folder: string): Promise<ProvideOptions & { env: object }> {
  const proxy = `http://127.0.0.1:${await closedPort()}`;
  const env = { PATH: "", http_proxy: proxy, https_proxy: proxy, no_proxy: "" };
  return { env, folder: join(folder, "programs") };
}

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((listening) => server.once("listening", listening));
  const { port } = server.address() as { port: number };
  await new Promise((closed) => server.close(closed));
  return port;
}
