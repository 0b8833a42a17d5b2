import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { connect } from "@ropeway/core";
import { provide } from "@ropeway/provide";
import { eventually } from "@ropeway/testkit";
import { expect, test, vi } from "vitest";
import { birthOf } from "../../src/up/process-birth.ts";
import {
  ask,
  makeHome,
  PATIENCE_MS,
  PROGRAMS,
  ropewayUnderNpm,
  serverPid,
  startUp,
} from "./started.ts";

vi.setConfig({ testTimeout: PATIENCE_MS });

/** The guard of an `up`: the only child that is a shell. */
async function guardOf(pid: number): Promise<number> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  for (const child of children.trim().split(" ").map(Number)) {
    if ((await readFile(`/proc/${child}/comm`, "utf8")).trim() === "sh") return child;
  }
  throw new Error(`${pid} has no guard among ${children}`);
}

test("kill -9 of up ends its Redis too, and the next up finds every accepted write", async () => {
  await using home = await makeHome();
  const first = await startUp(home.path);
  await using script = first.script;
  const pid = await serverPid(first.redisUrl);
  {
    await using redis = await connect(first.redisUrl);
    for (let count = 1; count <= 100; count++) await redis.send(["INCR", "accepted"]);
  }
  await script.kill9();
  await eventually(async () => expect(await birthOf(pid)).toBeUndefined());

  const second = await startUp(home.path);
  await using again = second.script;
  expect(await ask(second.redisUrl, "GET", "accepted")).toBe("100");
  const claims = await readdir(join(home.path, "up"));
  expect(claims.filter((name) => name.endsWith(".json"))).toHaveLength(1);
  await again.terminate();
});

test.skipIf(process.platform !== "linux")(
  "a Redis that outlived up and its guard is ended before another is started on its files",
  async () => {
    await using home = await makeHome();
    const first = await startUp(home.path);
    await using script = first.script;
    const orphan = await serverPid(first.redisUrl);
    process.kill(await guardOf(script.pid), "SIGKILL");
    await script.kill9();
    expect(await ask(first.redisUrl, "SET", "written", "late")).toBe("OK");

    const second = await startUp(home.path);
    await using again = second.script;
    expect(await birthOf(orphan)).toBeUndefined();
    expect(await serverPid(second.redisUrl)).not.toBe(orphan);
    expect(second.redisUrl).toBe(first.redisUrl);
    expect(await ask(second.redisUrl, "GET", "written")).toBe("late");
    await again.terminate();
  },
);

test("a Redis that crashes is started again with its data, and the portal goes on", async () => {
  await using home = await makeHome();
  const { script: started, url, redisUrl } = await startUp(home.path);
  await using script = started;
  await ask(redisUrl, "SET", "kept", "yes");
  const pid = await serverPid(redisUrl);
  process.kill(pid, "SIGKILL");
  await eventually(() => expect(script.log()).toContain(`Redis is back at ${redisUrl}`), {
    withinMs: 20_000,
  });
  expect(script.log()).toContain("ropeway: Redis ended by SIGKILL; starting it again");
  expect(await ask(redisUrl, "GET", "kept")).toBe("yes");
  expect(await fetch(`${url}/healthz`).then(({ status }) => status)).toBe(200);
  expect(await script.terminate()).toEqual({ code: 0, signal: null });
  expect(await birthOf(pid)).toBeUndefined();
});

test("a Redis that does not stay up ends everything with one sentence", async () => {
  await using home = await makeHome();
  const { command } = await provide("redis-server", { folder: PROGRAMS });
  const folder = dirname(home.path);
  const server = join(folder, "redis-server");
  // A real server the first time, and none ever after.
  const script = `[ "$1" = --version ] || mkdir '${folder}/once' || exit 1\nexec '${command[0]}' "$@"\n`;
  await writeFile(server, `#!/bin/sh\n${script}`, { mode: 0o755 });
  const { script: started, redisUrl } = await startUp(home.path, { ROPEWAY_REDIS_SERVER: server });
  await using up = started;
  process.kill(await serverPid(redisUrl), "SIGKILL");
  expect(await up.exited).toEqual({ code: 1, signal: null });
  expect(up.log().split("\n").at(-1)).toMatch(
    /^ropeway: the Redis of this home does not stay up: .*File exists \(its log: .*redis\.log\)$/,
  );
});

test("a second Ctrl-C does not wait, and still no process is left", async () => {
  await using home = await makeHome();
  const { script: started, redisUrl } = await startUp(home.path);
  await using script = started;
  const pid = await serverPid(redisUrl);
  process.kill(pid, "SIGSTOP"); // a Redis that does not answer keeps the orderly stop waiting
  script.signal("SIGINT");
  await eventually(() => {
    script.signal("SIGINT"); // until it counts as another keystroke
    expect(script.running).toBe(false);
  });
  expect(await script.exited).toEqual({ code: 130, signal: null });
  process.kill(pid, "SIGCONT");
  await eventually(async () => expect(await birthOf(pid)).toBeUndefined());
});

test("below npm, the end of npm ends everything, although npm forwards nothing", async () => {
  await using home = await makeHome();
  await using npm = await ropewayUnderNpm(home.path, ["up", "--port", "0"]);
  const up = Number((await npm.waitForLine(/^started (\d+)$/, { withinMs: PATIENCE_MS / 3 }))[1]);
  const line = await npm.waitForLine(/^ {2}redis +(\S+)/, { withinMs: PATIENCE_MS / 3 });
  await npm.waitForLine(/^ropeway ready/);
  const pid = await serverPid(line[1] ?? "");
  process.kill(npm.pid, "SIGTERM");
  await eventually(async () => expect(await birthOf(up)).toBeUndefined(), { withinMs: 20_000 });
  expect(await birthOf(pid)).toBeUndefined();
  expect(await readdir(join(home.path, "up"))).toEqual([]);
});
