import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ProgramUnavailableError, type ProvideOptions, provide } from "../src/index.ts";
import { nowhere, realRedis, redisOfVersion, script, temporaryFolder } from "./workshop.ts";

/** Puts a whole bundle into the programs folder, started by the real server and with the given label. */
async function storeBundle(folder: string, label: object, file = "redis-server"): Promise<string> {
  const bundle = join(folder, "programs", "redis-9.9.9");
  await realRedis(join(bundle, "bin", file));
  await writeFile(join(bundle, "bundle.json"), JSON.stringify(label));
  return join(bundle, "bin", file);
}

async function failure(options: ProvideOptions): Promise<ProgramUnavailableError> {
  const error = await provide("redis-server", options).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ProgramUnavailableError);
  return error as ProgramUnavailableError;
}

test("an environment variable comes before PATH, PATH before the programs folder", async () => {
  const folder = await temporaryFolder();
  const options = await nowhere(folder);
  const stored = await storeBundle(folder, { product: "redis", version: "9.9.9", packages: {} });
  const path = await realRedis(join(folder, "bin", "redis-server"));
  const named = await realRedis(join(folder, "named"));

  const all = { ...options.env, PATH: join(folder, "bin"), ROPEWAY_REDIS_SERVER: named };
  const first = await provide("redis-server", { ...options, env: all });
  expect(first).toMatchObject({ name: "redis-server", origin: "env", command: [named] });

  const without = { ...all, ROPEWAY_REDIS_SERVER: undefined };
  const second = await provide("redis-server", { ...options, env: without });
  expect(second).toMatchObject({ origin: "path", command: [path] });

  const third = await provide("redis-server", options);
  expect(third).toMatchObject({ origin: "home", command: [stored] });
  expect(third.version).toBe(first.version);
  expect(third.variable).toBe("ROPEWAY_REDIS_SERVER");
});

test("a named program that cannot be used is an error, not a reason to search on", async () => {
  const folder = await temporaryFolder();
  const options = await nowhere(folder);
  const PATH = join(folder, "bin");
  await realRedis(join(PATH, "redis-server"));
  for (const [path, why] of [
    [join(folder, "absent"), "does not run"],
    ["/bin/ls", "is not redis-server"],
    [await redisOfVersion(join(folder, "old"), "5.0.14"), "is Redis 5.0.14 and 6.2 is needed"],
  ] as const) {
    const env = { ...options.env, PATH, ROPEWAY_REDIS_SERVER: path };
    const { message } = await failure({ ...options, env });
    expect(message).toContain("ROPEWAY_REDIS_SERVER cannot be used because");
    expect(message).toContain(`${path} ${why}`);
  }
});

test("a server on PATH that is too old is passed over with a note", async () => {
  const folder = await temporaryFolder();
  const options = await nowhere(folder);
  const old = await redisOfVersion(join(folder, "old", "redis-server"), "6.0.16");
  const fit = await realRedis(join(folder, "new", "redis-server"));
  const notes: string[] = [];
  const found = await provide("redis-server", {
    ...options,
    env: { ...options.env, PATH: `${join(folder, "old")}:${join(folder, "new")}` },
    onProgress: (sentence) => notes.push(sentence),
  });
  expect(found.command).toEqual([fit]);
  expect(notes).toEqual([`Not used: ${old} is Redis 6.0.16 and 6.2 is needed`]);
});

test("Valkey under either name is a redis-server and is reported as Valkey", async () => {
  const folder = await temporaryFolder();
  const options = await nowhere(folder);
  for (const file of ["valkey-server", "redis-server"]) {
    const PATH = join(folder, file);
    await script(join(PATH, file), 'echo "Valkey server v=8.1.1 sha=00000000:0"');
    const found = await provide("redis-server", { ...options, env: { ...options.env, PATH } });
    expect(found).toMatchObject({ name: "redis-server", product: "valkey", version: "8.1.1" });
  }
});

test("a folder without a label, or with one and a program that does not run, is not believed", async () => {
  const folder = await temporaryFolder();
  const options = await nowhere(folder);
  const bundle = join(folder, "programs", "redis-7.0.15");
  const starter = await script(join(bundle, "bin", "redis-server"), "exec /absent/ld-linux.so");
  expect((await failure(options)).reason).not.toContain(starter);

  await writeFile(join(bundle, "bundle.json"), '{"product":"redis","version":"7.0.15"}');
  expect((await failure(options)).reason).toContain(`${starter} does not run`);
});

test("with no program and no network there is one sentence that says what to do", async () => {
  const folder = await temporaryFolder();
  const options = await nowhere(folder);
  const otherwise = "set REDIS_URL to a running server";
  const error = await failure({ ...options, otherwise });
  expect(error.code).toBe("PROGRAM_UNAVAILABLE");
  expect(error.message).toMatch(/^No redis-server or valkey-server was found and none could be /);
  expect(error.message).toMatch(
    /\): install it \(Debian\/Ubuntu: apt-get install redis-server, macOS: brew install redis\), set ROPEWAY_REDIS_SERVER to its path or set REDIS_URL to a running server\.$/,
  );
  expect(error.message.match(/\.(\s|$)/g)).toHaveLength(1);
  expect(error.message).not.toContain("\n");
  expect(await readdir(join(folder, "programs"))).toEqual([]);
});

test("a folder that may not be made is a reason in the sentence", async () => {
  const folder = await temporaryFolder();
  const options = await nowhere(folder);
  await writeFile(join(folder, "programs"), "a file");
  expect((await failure(options)).reason).toContain("EEXIST");
});

test("an aborted search rejects with the caller's reason", async () => {
  const folder = await temporaryFolder();
  const options = await nowhere(folder);
  const PATH = join(folder, "bin");
  await redisOfVersion(join(PATH, "redis-server"), "6.0.16");
  const reason = new Error("enough");
  const controller = new AbortController();
  const search = provide("redis-server", {
    ...options,
    env: { ...options.env, PATH },
    signal: controller.signal,
    onProgress: () => controller.abort(reason),
  });
  await expect(search).rejects.toBe(reason);
});

test("a search that takes longer than its bound says so", async () => {
  const folder = await temporaryFolder();
  const options = await nowhere(folder);
  await mkdir(join(folder, "bin"));
  await script(join(folder, "bin", "redis-server"), "exec sleep 60");
  const env = { ...options.env, PATH: `${join(folder, "bin")}:/bin` };
  const error = await failure({ ...options, env, timeoutMs: 300 });
  expect(error.reason).toBe("it timed out after 0.3 s");
});

test("an unknown program or a bound that is no number is refused", async () => {
  await expect(provide("redis-serve" as "redis-server")).rejects.toThrow(/"redis-serve" \(known: /);
  await expect(provide("etcd", { timeoutMs: 0 })).rejects.toThrow(/timeoutMs .* not 0/);
});
