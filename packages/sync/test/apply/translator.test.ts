import { expect, test } from "vitest";
import type { StreamNote } from "../../src/apply/applier.ts";
import { Translator } from "../../src/apply/translator.ts";
import { Mapping } from "../../src/mapping.ts";
import { WireCommand } from "../../src/resp/command-reader.ts";
import type { Abilities } from "../../src/sink/abilities.ts";
import { Transaction } from "../../src/sink/transaction.ts";
import { encodeCommand } from "../../src/wire/encode.ts";

const NEWEST: Abilities = {
  ...{ family: "redis", version: [8, 0], rdbVersion: 12, databases: 16 },
  ...{ restoreReplace: true, restoreAbsTtl: true, setPxAt: true, mset: true },
  ...{ unlink: true, pExpireTime: true, functions: true },
};

/** What a command becomes for a target that is as new as the source. */
function translated(line: string): string[] {
  const translator = new Translator({
    policies: { flush: "apply", swapDb: "apply", functions: "apply", publish: "apply" },
    mapping: new Mapping({}),
    ...{ abilities: NEWEST, transform: undefined, ttlShiftMs: 0, twoWay: false },
    ...{ ownKeys: [], expiriesKey: "ropeway:sync:{t}:expiries:0" },
    onUnwritable: (_argv, _db, reason) => {
      throw new Error(reason);
    },
    onFiltered: () => {},
  });
  translator.fencing = false;
  const argv = line.split(" ").map((word) => Buffer.from(word));
  const into = new Transaction<StreamNote>();
  translator.command(new WireCommand(argv, encodeCommand(argv)), 0, into);
  const words = Buffer.concat([...into.encoded()])
    .toString()
    .split("\r\n");
  return words.filter((word) => word !== "" && !/^[*$]/.test(word));
}

test.each([
  ["XADD k MAXLEN = 9 LIMIT 5 1-1 LIMIT 5", "XADD k MAXLEN = 9 1-1 LIMIT 5"],
  ["XTRIM k MINID = 9 LIMIT 5", "XTRIM k MINID = 9"],
  ["PEXPIREAT k 123 GT", "PEXPIREAT k 123"],
  ["MOVE k 3", "MOVE k 3"],
  ["RPUSH ropeway:tmp:{k}:t 1", "RPUSH ropeway:tmp:{k}:t 1"],
  ["HSET ropeway:sync:{t}:checkpoint:0 a b", ""],
])("%s reaches the newest target as: %s", (line, expected) => {
  expect(translated(line).join(" ")).toBe(expected);
});

test.each(["ACL SETUSER u on nopass", "config set dir /tmp", "SHUTDOWN", "REPLICAOF h 1"])(
  "a command that administers a server is refused: %s",
  (line) => {
    expect(() => translated(line)).toThrow("it administers a server");
  },
);
