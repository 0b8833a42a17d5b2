// Runs the real CLI as a process, the way `npm start` does, with a home of its own.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "@ropeway/core";
import { type Exit, freePort, type Script, spawnScript } from "@ropeway/testkit";

const MAIN = new URL("../../src/main.ts", import.meta.url);
const NPM = new URL("./npm.fixture.ts", import.meta.url);

/** A start takes a second; a machine that runs everything at once may need many. */
export const PATIENCE_MS = 90_000;

/** The folder the tests' programs are provided in, so that nothing is downloaded twice. */
export const PROGRAMS: string = fileURLToPath(
  new URL("../../../../.ropeway/programs", import.meta.url),
);

/** A folder for one home. */
export async function makeHome(): Promise<{ path: string } & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), "ropeway-up-"));
  return {
    path: join(folder, "home"),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }),
  };
}

interface Run {
  readonly home: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Starts `ropeway ...` in a home; nothing of this machine's settings reaches it. */
export async function ropeway(
  home: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Script> {
  return run(MAIN, { home, args, env });
}

/** The same with a process between us and it, as under npm; it first says `started PID`. */
export async function ropewayUnderNpm(home: string, args: readonly string[]): Promise<Script> {
  return run(NPM, { home, args: [fileURLToPath(MAIN), ...args], env: {} });
}

function run(file: URL, { home, args, env }: Run): Promise<Script> {
  const none = { REDIS_URL: "", ROPEWAY_ADMIN_PASSWORD: "", ROPEWAY_TARGETS: "" };
  const own = { ROPEWAY_HOME: home, ROPEWAY_PROGRAMS: PROGRAMS, ROPEWAY_QUEUE_PORT: "0" };
  return spawnScript(file, { args, env: { ...none, ...own, ...env } });
}

/** Starts `ropeway up` on a free port of its own and waits until it is ready. */
export async function startUp(
  home: string,
  env: Readonly<Record<string, string>> = {},
): Promise<{ script: Script; url: string; mergeUrl: string; redisUrl: string }> {
  const port = String(await freePort());
  const script = await ropeway(home, ["up"], { ROPEWAY_PORT: port, ...env });
  const withinMs = PATIENCE_MS / 3;
  const [, mergeUrl = ""] = await script.waitForLine(/^ {2}merge +(\S+)/, { withinMs });
  const [, redisUrl = ""] = await script.waitForLine(/^ {2}redis +(\S+)/);
  const [, url = ""] = await script.waitForLine(/^ropeway ready (\S+)$/);
  return { script, url, mergeUrl, redisUrl };
}

/** Runs a command to its end. */
export async function finish(
  home: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Exit & { said: string; stdout: string[] }> {
  await using script = await ropeway(home, args, env);
  const exit = await script.exited;
  const stdout: string[] = [];
  for await (const line of script.lines) stdout.push(line);
  return { ...exit, said: script.log(), stdout };
}

/** The pid of the server that a Redis URL leads to. */
export async function serverPid(redisUrl: string): Promise<number> {
  await using redis = await connect(redisUrl);
  return Number(/process_id:(\d+)/.exec(String(await redis.send(["INFO", "server"])))?.[1]);
}

/** Sends one command to a Redis by its URL. */
export async function ask(redisUrl: string, ...command: string[]): Promise<unknown> {
  await using redis = await connect(redisUrl);
  return await redis.send(command);
}
