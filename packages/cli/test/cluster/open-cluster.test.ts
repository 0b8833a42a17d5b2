import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StoreUnavailableError } from "@ropeway/cluster";
import type { AuditEntry } from "@ropeway/portal/internal";
import { afterAll, expect, test } from "vitest";
import { audited, ensureSecretKey, secretBoxOf } from "../../src/cluster/open-cluster.ts";
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

test("a change that was made is reported, and none that may have been made is noted as failed", async () => {
  const lost = new StoreUnavailableError("a store", true, new Error("its response was lost"));
  const noted: string[] = [];
  let reachable = true;
  const log = {
    begin: async (draft: Omit<AuditEntry, "id" | "at">) => ({ id: "1", at: 0, ...draft }),
    async complete(_entry: AuditEntry, { outcome }: Pick<AuditEntry, "outcome">) {
      if (!reachable) throw lost;
      noted.push(outcome);
    },
    async trim() {},
  };
  const what = { action: "token add ann", subject: "user ann" };
  const failed = async () => {
    throw new Error("refused");
  };
  const unsure = async () => {
    throw lost;
  };
  expect(await audited(log, what, async () => "a token")).toBe("a token");
  await expect(audited(log, what, failed)).rejects.toThrow("refused");
  await expect(audited(log, what, unsure)).rejects.toBe(lost);
  expect(noted).toEqual(["done", "failed"]);
  reachable = false;
  expect(await audited(log, what, async () => "a token")).toBe("a token");
  await expect(audited(log, what, failed)).rejects.toThrow("refused");
});

test("commands keep the audit log within its bound, also where no portal does", async () => {
  let trims = 0;
  let id = "";
  const log = {
    begin: async (draft: Omit<AuditEntry, "id" | "at">) => ({ id, at: 0, ...draft }),
    async complete() {},
    async trim() {
      trims += 1;
      throw new Error("the store is unreachable");
    },
  };
  for (let n = 0; n < 4_096; n++) {
    id = `8263000000000_${(0xabc000000 + n).toString(16)}`;
    await audited(log, { action: "user add ann", subject: "user ann" }, async () => {});
  }
  expect(trims).toBe(1);
});
