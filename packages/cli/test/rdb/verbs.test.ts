import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { byteText } from "../../src/rdb/byte-text.ts";
import { progressBar } from "../../src/rdb/progress-bar.ts";
import { speak } from "../spoken.ts";

let cwd: string;

beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), "ropeway-rdb-"));
  await using redis = await startRedis();
  await redis.command("SET", "user:1", "Ada");
  await redis.command("HSET", "cart:\u001b[2J", "apples", "3");
  await redis.command("SAVE");
  await writeFile(join(cwd, "dump.rdb"), await readFile(join(redis.dir, "dump.rdb")));
});

afterAll(() => rm(cwd, { recursive: true }));

test("rdb inspect prints a summary, and as JSON the same", async () => {
  const { code, stdout, stderr } = await speak(["rdb", "inspect", "dump.rdb"], { cwd });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/^keys +2, of which 0 expire$/m);
  expect(stdout).toMatch(/^user:\t1\t/m);
  expect(stdout).not.toContain("\u001b");
  const json = await speak(["rdb", "inspect", "dump.rdb", "--json", "--top", "1"], { cwd });
  const summary = JSON.parse(json.stdout) as { total: { keys: number }; biggest: unknown[] };
  expect([summary.total.keys, summary.biggest.length]).toEqual([2, 1]);
});

test("rdb inspect shows a progress bar on a terminal, and removes it", async () => {
  const { stderr } = await speak(["rdb", "inspect", "dump.rdb"], { cwd, terminal: true });
  expect(stderr.endsWith("\r\u001b[K")).toBe(true);
  expect(progressBar(50, 200, 1000)).toBe(
    "[#####---------------]  25 %  50 B of 200 B  50 B/s  3 s left",
  );
  expect([0, 999, 1000, 1_250_000, 99_999_999].map(byteText)).toEqual([
    "0 B",
    "999 B",
    "1.0 kB",
    "1.3 MB",
    "100 MB",
  ]);
});

test("rdb to-json prints one line per key", async () => {
  const { code, stdout } = await speak(["rdb", "to-json", "dump.rdb"], { cwd });
  expect(code).toBe(0);
  const lines = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const keys = lines.filter(({ kind }) => kind === "key");
  expect(keys).toContainEqual({ kind: "key", db: 0, key: "user:1", type: "string", value: "Ada" });
  expect(keys).toHaveLength(2);
});

test.each([
  ["a file that is not there", "none.rdb", 2, "file not found"],
  ["a folder", ".", 2, "it is a folder"],
  ["a device", "/dev/zero", 2, "it is a pipe or a device, not a file"],
  ["a file that is no RDB", "text", 1, "is not the beginning of an RDB"],
  ["half an RDB", "half.rdb", 1, "before its EOF opcode"],
])("%s ends with a sentence", async (...[, name, code, sentence]) => {
  await writeFile(join(cwd, "text"), "this is a text and not an RDB");
  const whole = await readFile(join(cwd, "dump.rdb"));
  await writeFile(join(cwd, "half.rdb"), whole.subarray(0, whole.length - 12));
  for (const verb of ["inspect", "to-json"]) {
    const said = await speak(["rdb", verb, name], { cwd });
    expect(said.code).toBe(code);
    expect(said.stderr).toContain(sentence);
  }
});
