import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { speak } from "../spoken.ts";

const SOURCE = { config: ["repl-diskless-sync-delay 0"] };

function ends(from: string, to: string): string[] {
  return ["--from", from, "--to", to];
}

test("run --once copies everything and prints a summary; the same command again resumes", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  for (let i = 0; i < 50; i++) await source.command("SET", `k${i}`, String(i));
  const args = ["sync", "run", ...ends(source.url, target.url), "--once", "--json"];
  const first = await speak(args);
  expect(first.code).toBe(0);
  const summary = JSON.parse(first.stdout.trim().split("\n").at(-1) ?? "");
  expect(summary).toMatchObject({ phase: "FINISH", keys: 50, epoch: 1, lagMs: 0, done: true });
  await source.command("INCR", "k1");
  const second = await speak(args);
  const resumed = JSON.parse(second.stdout.trim().split("\n").at(-1) ?? "");
  expect(resumed).toMatchObject({
    keys: 0,
    commands: 1,
    epoch: 2,
    partialResyncs: 1,
    fullResyncs: 0,
  });
  expect(String(await target.command("GET", "k1"))).toBe("2");
});

test("Ctrl-C writes the checkpoint and exits 0", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("SET", "a", "1");
  const stop = new AbortController();
  const running = speak(["sync", "run", ...ends(source.url, target.url)], { signal: stop.signal });
  await eventually(async () => expect(String(await target.command("GET", "a"))).toBe("1"));
  stop.abort("SIGINT");
  expect(await running).toMatchObject({ code: 0 });
});

test("verify exits 1 and names each key that differs, and repairs on demand", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("MSET", "a", "1", "b", "2", "c", "3");
  await speak(["sync", "run", ...ends(source.url, target.url), "--once"]);
  await target.command("SET", "a", "other");
  await target.command("DEL", "b");
  await target.command("RPUSH", "d", "x");
  const found = await speak(["sync", "verify", ...ends(source.url, target.url), "--json"]);
  expect(found.code).toBe(1);
  const { differences } = JSON.parse(found.stdout);
  const reasons = differences.map(({ key, reason }: { key: string; reason: string }) => [
    key,
    reason,
  ]);
  expect(reasons.sort()).toEqual([
    ["a", "value"],
    ["b", "missing"],
    ["d", "extra"],
  ]);
  const repaired = await speak(["sync", "verify", ...ends(source.url, target.url), "--repair"]);
  expect(repaired.code).toBe(0);
  expect(await speak(["sync", "verify", ...ends(source.url, target.url)])).toMatchObject({
    code: 0,
  });
}, 60_000);

test("verify compares what a task with options copies", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("MSET", "v1:a", "1", "skip:b", "2");
  const folder = await mkdtemp(join(tmpdir(), "ropeway-sync-"));
  const file = join(folder, "options.json");
  const filter = { refuse: { prefixes: ["skip:"] } };
  await writeFile(file, JSON.stringify({ filter, rename: { "v1:": "v2:" }, lanes: 1, name: "n" }));
  const words = [...ends(source.url, target.url), "--options", file];
  expect(await speak(["sync", "run", ...words, "--once"])).toMatchObject({ code: 0 });
  expect(await speak(["sync", "verify", ...words])).toMatchObject({ code: 0 });
  await target.command("SET", "v2:a", "other");
  expect(await speak(["sync", "verify", ...words])).toMatchObject({ code: 1 });
  await rm(folder, { recursive: true });
}, 60_000);

test("the JSON file of --options may have regular expressions, as strings", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis();
  await source.command("MSET", "user:1", "1", "user:x", "2");
  const folder = await mkdtemp(join(tmpdir(), "ropeway-sync-"));
  const file = join(folder, "options.json");
  const words = [...ends(source.url, target.url), "--options", file];
  const withPattern = (pattern: string) =>
    writeFile(file, JSON.stringify({ filter: { accept: { patterns: [pattern] } } }));
  await withPattern("^user:\\d+$");
  expect(await speak(["sync", "run", ...words, "--once"])).toMatchObject({ code: 0 });
  expect(await target.command("KEYS", "user:*")).toEqual(["user:1"]);
  expect(await speak(["sync", "verify", ...words])).toMatchObject({ code: 0 });
  await withPattern("(");
  const { code, stderr } = await speak(["sync", "run", ...words]);
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining('filter.accept.patterns in --options has "("'),
  });
  await rm(folder, { recursive: true });
}, 60_000);

test("check exits 1 for a target that would evict keys, and says what to do", async () => {
  await using source = await startRedis(SOURCE);
  await using target = await startRedis({
    config: ["maxmemory 50mb", "maxmemory-policy allkeys-lru"],
  });
  const checked = await speak(["sync", "check", ...ends(source.url, target.url)]);
  expect(checked.code).toBe(1);
  expect(checked.stdout).toContain("maxmemory-policy noeviction");
  const shown = await speak(["sync", "check", ...ends(source.url, target.url)], { terminal: true });
  expect(shown.stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  const words = (text: string) => text.replace(/\s+/g, " ").replace(/\d+ bytes left/, "");
  expect(words(shown.stdout)).toBe(words(checked.stdout));
});

test("a host that does not exist is a sentence with the host and the flag", async () => {
  await using target = await startRedis();
  const away = "redis://nosuch.invalid:6379";
  for (const verb of ["run", "verify"]) {
    const { code, stderr } = await speak(["sync", verb, ...ends(away, target.url)]);
    expect({ code, stderr }).toEqual({
      code: 3,
      stderr: expect.stringMatching(
        /^ropeway: cannot connect to nosuch\.invalid:6379: .*"nosuch\.invalid".*; check that server, or change --from\n$/,
      ),
    });
  }
});

test("a wrong password, an unknown option and a missing target are sentences", async () => {
  await using source = await startRedis({ ...SOURCE, password: "right" });
  const [host] = source.url.split("@").slice(-1);
  const wrong = await speak(["sync", "run", ...ends(`redis://:wrong@${host}`, source.url)]);
  expect(wrong.code).toBe(3);
  expect(wrong.stderr).toContain("refused the user or password");
  const usage = await speak(["sync", "run", "--from", source.url]);
  expect(usage.code).toBe(2);
});

test("a file that is not there is told as that, by run and by check", async () => {
  await using target = await startRedis();
  const ran = await speak(["sync", "run", ...ends("file:/nowhere/missing.rdb", target.url)]);
  expect(ran).toMatchObject({
    code: 2,
    stderr: "ropeway: cannot read /nowhere/missing.rdb: no such file\n",
  });
  const aof = await speak(["sync", "run", ...ends("file:/nowhere/appendonlydir", target.url)]);
  expect(aof.stderr).toBe("ropeway: cannot read /nowhere/appendonlydir: no such file\n");
  const checked = await speak(["sync", "check", ...ends("file:/nowhere/missing.rdb", target.url)]);
  expect(checked.code).toBe(1);
  expect(checked.stdout).toContain(
    "problem  source file: cannot read /nowhere/missing.rdb: no such file\n",
  );
});
