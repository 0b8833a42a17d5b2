// The real thing: no server on PATH, an empty folder, this machine's own apt sources. One folder goes
// through what can happen to it: a process is killed while filling it, then two processes want the
// same program at once.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { hasApt } from "../src/apt-archive.ts";
import { type ProvidedProgram, provide } from "../src/index.ts";

const situation = "on a machine with apt sources and no server on PATH";
const obstacle = await whyNot();
let folder: string;

/** Why nothing can be downloaded here, if so. */
async function whyNot(): Promise<string | undefined> {
  if (!(await hasApt())) return "skipped: this machine has no apt";
  const { stdout } = spawnSync("/usr/bin/apt-get", ["indextargets"], { encoding: "utf8" });
  return stdout === "" ? "skipped: this machine has no apt sources" : undefined;
}

function provideElsewhere(): ChildProcess {
  const script = fileURLToPath(new URL("./provide-process.ts", import.meta.url));
  const args = ["--conditions", "@ropeway/source", "--import", "tsx", script, folder];
  return spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
}

async function linesOf(child: ChildProcess): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    lines.push(line);
  }
  return lines;
}

/** Kills a filling process, without a chance to tidy up, when it says that it downloads. */
async function killWhileFilling(): Promise<void> {
  const child = provideElsewhere();
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    if (line.startsWith("Downloading")) child.kill("SIGKILL");
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

describe.skipIf(obstacle)(obstacle ?? situation, () => {
  let left: string[];
  let outputs: string[][];
  let programs: ProvidedProgram[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "ropeway-download-"));
    await killWhileFilling();
    left = await readdir(folder);
    outputs = await Promise.all([provideElsewhere(), provideElsewhere()].map(linesOf));
    programs = outputs.map((lines) => JSON.parse(lines.at(-1) as string) as ProvidedProgram);
  }, 180_000);

  afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

  test("a process that is killed while filling the folder leaves nothing that is believed", () => {
    expect(left).toContain(".lock");
    expect(left.filter((name) => !name.startsWith("."))).toEqual([]);
  });

  test("two processes that want the same program bring it once, and nothing else remains", async () => {
    expect(programs.map(({ origin }) => origin).sort()).toEqual(["debian", "home"]);
    expect(programs[0]?.command).toEqual(programs[1]?.command);
    const bundles = await readdir(folder);
    expect(bundles).toEqual([`${programs[0]?.product}-${programs[0]?.version}`]);
  });

  test("the server that was brought starts, answers PING and ends on SIGTERM", async () => {
    const socket = join(folder, "redis.sock");
    const [file, ...args] = (programs[0] as ProvidedProgram).command;
    const options = ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder];
    const server = spawn(file, [...args, ...options], {
      env: {},
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void server.kill("SIGKILL"));
    for await (const line of createInterface({ input: server.stdout })) {
      if (/ready to accept connections/i.test(line)) break;
    }
    const client = connect(socket).setEncoding("utf8");
    client.write("PING\r\n");
    const [answer] = await once(client, "data");
    expect(answer).toBe("+PONG\r\n");
    client.destroy();
    // The starter must not stand between a signal and the server.
    server.kill("SIGTERM");
    expect(await once(server, "exit")).toEqual([0, null]);
  });

  test("redis-cli and redis-benchmark are in the same bundle", async () => {
    const env = { ...process.env, PATH: "", ROPEWAY_REDIS_CLI: undefined };
    const cli = await provide("redis-cli", { folder, env });
    expect(cli).toMatchObject({ origin: "home", version: programs[0]?.version });
    const benchmark = await provide("redis-benchmark", { folder, env });
    expect(benchmark).toMatchObject({ origin: "home", version: programs[0]?.version });
  });

  test("an aborted download rejects with the caller's reason and leaves nothing behind", async () => {
    const empty = join(folder, "empty");
    const reason = new Error("enough");
    const controller = new AbortController();
    const search = provide("redis-server", {
      folder: empty,
      env: { ...process.env, PATH: "", ROPEWAY_REDIS_SERVER: undefined },
      signal: controller.signal,
      onProgress: () => controller.abort(reason),
    });
    await expect(search).rejects.toBe(reason);
    expect(await readdir(empty)).toEqual([]);
  });
});
