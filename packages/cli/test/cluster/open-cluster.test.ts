import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ensureSecretKey, secretBoxOf } from "../../src/cluster/open-cluster.ts";
import { loadSettings } from "../../src/settings/load.ts";

const home = await mkdtemp(join(tmpdir(), "ropeway-key-"));
const file = join(home, "secret.key");
afterAll(() => rm(home, { recursive: true }));

test("a home gets a key once, also if a start that was cut short left an empty file", async () => {
  await writeFile(file, "");
  await ensureSecretKey(home);
  const key = await readFile(file, "utf8");
  expect(Buffer.from(key, "base64")).toHaveLength(32);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  await ensureSecretKey(home);
  expect(await readFile(file, "utf8")).toBe(key);
  expect(await readdir(home)).toEqual(["secret.key"]);
});

test("a file that holds no key is named, and what it holds is not shown", async () => {
  await writeFile(file, "half a key");
  const settings = loadSettings({ flags: {}, env: { ROPEWAY_HOME: home }, cwd: home });
  expect(() => secretBoxOf(settings)).toThrow(`${file} does not hold a key`);
  expect(() => secretBoxOf(settings)).not.toThrow("half a key");
});
