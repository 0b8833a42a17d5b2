import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { connect, type Redis } from "@ropeway/core";
import { createClient, RpcServer } from "@ropeway/rpc";
import { type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const run = promisify(execFile);
const PROGRAM = fileURLToPath(new URL("../rpc.py", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "ropeway-python-"));
const { path, reason } = pythonRedis();

/** Where `import redis` works: as installed, or Debian's package unpacked without root. */
function pythonRedis(): { path?: string; reason?: string } {
  const imports = (path: string) =>
    spawnSync("python3", ["-c", "import redis"], { env: { ...process.env, PYTHONPATH: path } })
      .status === 0;
  if (spawnSync("python3", ["--version"]).status !== 0) return { reason: "skipped: no python3" };
  if (imports("")) return { path: "" };
  spawnSync("apt-get", ["download", "python3-redis", "python3-async-timeout"], { cwd: folder });
  for (const deb of readdirSync(folder).filter((name) => name.endsWith(".deb"))) {
    spawnSync("dpkg-deb", ["-x", deb, "."], { cwd: folder });
  }
  const unpacked = join(folder, "usr", "lib", "python3", "dist-packages");
  return imports(unpacked)
    ? { path: unpacked }
    : { reason: "skipped: python3-redis is neither installed nor can it be downloaded" };
}

let server: RedisServer;
let redis: Redis;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  server = await startRedis();
  redis = await connect(server.url);
  env = { ...process.env, REDIS_URL: server.url, PYTHONPATH: path ?? "" };
});

afterAll(async () => {
  await redis.close();
  await server.close();
  rmSync(folder, { recursive: true });
});

async function python(...args: string[]): Promise<Record<string, unknown>> {
  const { stdout } = await run("python3", [PROGRAM, ...args], { env });
  return JSON.parse(stdout);
}

/** A Python worker, stopped by the end of its input. */
async function serving(...args: string[]): Promise<{ stop(): Promise<void> }> {
  const child: ChildProcess = spawn("python3", [PROGRAM, "serve", ...args], {
    env,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  await once(child.stdout as NonNullable<typeof child.stdout>, "data"); // it is ready
  return {
    stop: async () => {
      child.stdin?.end();
      await exited;
    },
  };
}

describe.skipIf(reason)(`Python with a plain Redis client ${reason ?? ""}`, () => {
  test("calls our jsonrpc server: result, error, progress, short polls", async () => {
    const worker = await new RpcServer(redis, { ns: "shop", exposeErrors: true })
      .add("demo", {
        add: ([a, b]: [number, number]) => a + b,
        fail: () => {
          throw new Error("no");
        },
        slow: async (_params, context) => {
          for (const percent of [0.5, 1]) {
            context.progress(percent);
            await new Promise((resolve) => setTimeout(resolve, 60));
          }
          return "done";
        },
      })
      .start();
    expect(await python("call", "jsonrpc", "shop", "demo", "add", "[1,2]")).toMatchObject({
      result: 3,
    });
    expect(await python("call", "jsonrpc", "shop", "demo", "fail", "[]")).toMatchObject({
      error: { code: -32000, message: "no" },
    });
    expect(await python("track", "jsonrpc", "shop", "demo", "slow", "[]")).toMatchObject({
      answer: { result: "done" },
      reports: [0.5, 1],
      expires: true,
      polled: true,
    });
    await worker.close();
  });

  test("serves our jsonrpc client: calls, errors, notifications, sessions, the registry", async () => {
    const worker = await serving("jsonrpc", "shop", "math", "py1", "g");
    const client = await createClient(redis, { ns: "shop" });
    await expect(client.call("math.add", [1, 2])).resolves.toBe(3);
    await expect(client.call("math.add", { a: 3, b: 4 })).resolves.toBe(7);
    await expect(client.call("math.divide", [1, 0])).rejects.toThrow("division by zero");
    await client.notify("math.add", [1, 2]);
    await expect(client.session("g", "me").call("math.whoami")).resolves.toBe("python");
    expect(await server.command("GET", "/api/shop/sess_map/g:me")).toBe("g:py1");
    const math = (await client.discover()).find(({ name }) => name === "math");
    expect(math).toMatchObject({
      methods: { add: { doc: "Adds two numbers." } },
      workers: [{ node: "py1", caps: [] }],
    });
    const ticket = await client.submit("math.add", [5, 6]);
    await expect(client.poll(ticket, { waitMs: 5_000 })).resolves.toEqual({ result: 11 });
    await client.close();
    await worker.stop();
    expect(await server.command("EXISTS", "/api/shop/works/math:py1")).toBe(0);
  });

  test("calls our kw server and serves our kw client", async () => {
    const kw = { dialect: "kw", prefix: "p" } as const;
    const worker = await new RpcServer(redis, { ...kw, exposeErrors: true })
      .add("demo", {
        add: ({ a, b }: { a: number; b: number }) => a + b,
        fail: () => {
          throw new RangeError("no");
        },
      })
      .start();
    expect(await python("call", "kw", "p", "add", '{"a":1,"b":2}')).toMatchObject({ res: 3 });
    expect(await python("call", "kw", "p", "fail", "{}")).toMatchObject({
      err: "RangeError: no",
      exc: "RangeError: no",
    });
    await worker.close();
    const theirs = await serving("kw", "p");
    const client = await createClient(redis, kw);
    await expect(client.call("add", { a: 3, b: 4 })).resolves.toBe(7);
    await expect(client.call("divide", { a: 1, b: 0 })).rejects.toThrow("ZeroDivisionError");
    await client.close();
    await theirs.stop();
  });
});
