import { appendFileSync, existsSync, truncateSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, otherServer, startRedis } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { aofFiles, parseManifest } from "../../src/aof/manifest.ts";
import { readAof } from "../../src/aof/read.ts";
import { AofReader } from "../../src/aof/reader.ts";
import { AofFormatError } from "../../src/errors.ts";
import { rdb, str } from "../rdb/build.ts";

/** Keys of the RDB part, and commands, in order. */
async function contentOf(path: string, options = {}): Promise<string[]> {
  const found: string[] = [];
  for await (const item of readAof(path, options)) {
    if (item.kind === "command") found.push(item.command.argv.join(" "));
    else if (item.entry.kind === "key") found.push(`key ${item.entry.key}`);
  }
  return found;
}

describe.each(["redis-6.0", "redis-7.0", "redis-8.0", "valkey-8.1"] as const)(
  "an AOF of %s",
  (version) => {
    const { reason } = otherServer(version);
    test.skipIf(reason)(`has the base, then the commands ${reason ?? ""}`, async () => {
      const config = ["aof-use-rdb-preamble yes"];
      if (version !== "redis-6.0") config.push("aof-timestamp-enabled yes");
      await using server = await startRedis({ version, appendonly: true, config });
      await server.command("SET", "before", "1");
      await server.command("BGREWRITEAOF");
      await eventually(async () => {
        const info = String(await server.command("INFO", "persistence"));
        expect(info).toMatch(/aof_rewrite_in_progress:0/);
        expect(info).toMatch(/aof_rewrite_scheduled:0/);
        expect(info).toMatch(/aof_last_bgrewrite_status:ok/);
      });
      await server.command("INCR", "after");
      await server.command("RPUSH", "list", "a", "b");
      const folder = join(server.dir, "appendonlydir");
      const path = existsSync(folder) ? folder : join(server.dir, "appendonly.aof");
      await eventually(async () => {
        expect(await contentOf(path)).toEqual([
          "key before",
          "SELECT 0",
          "INCR after",
          "RPUSH list a b",
        ]);
      });
    });
  },
);

test("a manifest names the base first and the rest in order, without history", async () => {
  const folder = await mkdtemp(join(tmpdir(), "ropeway-aof-"));
  try {
    writeFileSync(
      join(folder, "a.manifest"),
      `file a.3.incr.aof seq 3 type i\nfile a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type h\nfile "a \\x41.incr.aof" seq 2 type i startoffset 5\n`,
    );
    const names = ["a.1.base.rdb", "a A.incr.aof", "a.3.incr.aof"];
    expect(await aofFiles(folder)).toEqual(names.map((name) => join(folder, name)));
  } finally {
    await rm(folder, { recursive: true });
  }
});

test.each([
  ["a type that does not exist", "file a seq 1 type x"],
  ["no sequence", "file a type b"],
  ["two bases", "file a seq 1 type b\nfile b seq 2 type b"],
  ["a name that leads out of the folder", "file ../../etc/passwd seq 1 type i"],
])("a manifest with %s is refused", (_, text) => {
  expect(() => parseManifest(text, "m")).toThrow(AofFormatError);
});

test("half a command at the end is allowed in the last file only if that is wanted", async () => {
  const folder = await mkdtemp(join(tmpdir(), "ropeway-aof-"));
  const path = join(folder, "a.aof");
  try {
    const preamble = rdb("REDIS0009", 0, str("k"), str("v"));
    writeFileSync(path, preamble);
    appendFileSync(path, "#TS:1\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1");
    expect(await contentOf(path)).toEqual(["key k", "PING"]);
    await expect(contentOf(path, { truncatedAllowed: false })).rejects.toMatchObject({
      code: "AOF_FORMAT",
      details: { file: path, offset: preamble.length + 7 + 14 },
    });
    truncateSync(path, preamble.length - 3);
    await expect(contentOf(path)).rejects.toMatchObject({ code: "RDB_TRUNCATED" });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("what is no command is refused with its place, in any chunking", () => {
  const file = Buffer.concat([
    rdb("REDIS0009", 0, str("k"), str("v")),
    Buffer.from("*1\r\n$1\r\nab\r\n"),
  ]);
  for (const chunk of [1, 5, 1000]) {
    const reader = new AofReader("f");
    expect(() => {
      for (let at = 0; at < file.length; at += chunk) {
        reader.push(file.subarray(at, at + chunk));
        while (reader.next() !== undefined);
      }
    }).toThrow(AofFormatError);
  }
});
