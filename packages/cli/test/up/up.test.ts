import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { encodeService } from "@ropeway/merge";
import { eventually, freePort, startRedis } from "@ropeway/testkit";
import { expect, test, vi } from "vitest";
import { isFree } from "../../src/up/free-port.ts";
import { birthOf } from "../../src/up/process-birth.ts";
import { ask, finish, makeHome, PATIENCE_MS, ropeway, serverPid, startUp } from "./started.ts";

vi.setConfig({ testTimeout: PATIENCE_MS });

test("up serves, Ctrl-C leaves no process, and a second start keeps the data", async () => {
  await using home = await makeHome();
  const first = await startUp(home.path);
  await using script = first.script;
  expect(await fetch(`${first.url}/healthz`).then(({ status }) => status)).toBe(200);
  const [, password = ""] = /login +admin \/ (\S{12,})/.exec(script.log()) ?? [];
  expect(password).not.toBe("");
  expect(script.log()).toContain(`export REDIS_URL=${first.redisUrl}\n`);
  // Loopback may be reached without being allowed, and the banner says so.
  expect(script.log()).toContain("(delivers to public addresses, loopback)");
  const place = `${first.mergeUrl}/v3/queue/demo/GET/${encodeService(`${first.url}/healthz`)}`;
  expect((await fetch(place, { method: "POST", body: '"hello"' })).status).toBe(202);
  await eventually(async () => {
    expect(await fetch(place).then((answer) => answer.json())).toMatchObject({ items: 0 });
  });
  const pid = await serverPid(first.redisUrl);
  expect(await ask(first.redisUrl, "SET", "kept", "yes")).toBe("OK");

  // From the terminal and again from npm, which forwards it: one keystroke, one stop.
  script.signal("SIGINT");
  script.signal("SIGINT");
  expect(await script.exited).toEqual({ code: 0, signal: null });
  expect(await birthOf(pid)).toBeUndefined();
  expect(await isFree("127.0.0.1", Number(new URL(first.redisUrl).port))).toBe(true);
  expect(await readdir(join(home.path, "up"))).toEqual([]);

  const second = await startUp(home.path);
  await using again = second.script;
  expect(second.redisUrl).toBe(first.redisUrl);
  expect(await ask(second.redisUrl, "GET", "kept")).toBe("yes");
  expect(again.log()).toMatch(/login +use your existing account/);
  expect(await again.terminate()).toEqual({ code: 0, signal: null });
  for (const name of await readdir(join(home.path, "logs"))) {
    expect(await readFile(join(home.path, "logs", name), "utf8")).not.toContain(password);
  }
});

test("while up runs, other commands find its Redis, and a second up is told who has the home", async () => {
  await using home = await makeHome();
  const { script: started, redisUrl, mergeUrl, url } = await startUp(home.path);
  await using script = started;
  const { code, said } = await finish(home.path, ["up"]);
  expect({ code, said }).toEqual({
    code: 1,
    said: `ropeway: ropeway is already running at ${url} in ${home.path} (pid ${script.pid}): stop it first, or choose another home with ROPEWAY_HOME`,
  });

  const port = String(await freePort());
  const ports = ["--port", new URL(url).port, "--queue-port", new URL(mergeUrl).port];
  const doctor = await finish(home.path, ["doctor", "--json", ...ports]);
  expect(doctor.code).toBe(0);
  const { checks } = JSON.parse(doctor.stdout.join("")) as { checks: unknown[] };
  const own = {
    status: "ok",
    found: expect.stringContaining(`used by this installation (pid ${script.pid})`),
  };
  expect(checks).toContainEqual({ check: "portal.port", ...own });
  expect(checks).toContainEqual({ check: "merge.port", ...own });
  const found = expect.stringContaining(new URL(redisUrl).host);
  expect(checks).toContainEqual({ check: "redis", status: "ok", found });

  await using portal = await ropeway(home.path, ["portal", "--json"], { ROPEWAY_PORT: port });
  const [line = ""] = await portal.waitForLine(/.*/, { withinMs: PATIENCE_MS / 3 });
  expect(JSON.parse(line)).toEqual({
    ready: true,
    url: `http://127.0.0.1:${port}`,
    redis: new URL(redisUrl).host,
  });
  expect(await portal.terminate()).toEqual({ code: 0, signal: null });
  await script.terminate();
});

test("with a Redis and password of one's own, up starts no server and prints no secret", async () => {
  await using home = await makeHome();
  await using redis = await startRedis({ password: "s3cret" });
  // Someone else may have the usual port already, and may give it up at any time: nothing to see then.
  const blocker = createServer().listen(7480, "127.0.0.1");
  const held = await new Promise((resolve) =>
    blocker.once("listening", () => resolve(true)).once("error", () => resolve(false)),
  );
  const secrets = { ROPEWAY_ADMIN_PASSWORD: "correct horse", ROPEWAY_QUEUE_TOKEN: "t0ken" };
  const env = { REDIS_URL: redis.url, ROPEWAY_PORT: "", ...secrets };
  const { script: started, url, mergeUrl } = await startUp(home.path, env);
  await using script = started;
  blocker.close();
  if (held) {
    expect(url).not.toBe("http://127.0.0.1:7480");
    expect(script.log()).toContain(
      "Port 7480 is in use by another program, so the portal uses port ",
    );
  }
  expect(script.log()).toMatch(/login +admin, with the password you set/);
  expect(script.log()).toMatch(new RegExp(`redis +127.0.0.1:${redis.port}$`, "m"));
  expect(script.log()).not.toMatch(/s3cret|correct horse|t0ken/);
  expect(await redis.command("DBSIZE")).toBeGreaterThan(0);
  const push = (authorization: string) =>
    fetch(`${mergeUrl}/v3/queue/k/GET/${encodeService(url)}`, {
      method: "POST",
      body: "1",
      headers: { authorization },
    }).then(({ status }) => status);
  expect(await push("Bearer t0ken")).toBe(202);
  expect(await push("Bearer other")).toBe(401);
  expect(await readdir(join(home.path, "redis"))).toEqual([]);
  expect(await script.terminate()).toEqual({ code: 0, signal: null });
});
