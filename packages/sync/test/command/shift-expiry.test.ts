import { expect, test } from "vitest";
import { shiftExpiry } from "../../src/command/shift-expiry.ts";

const shifted = (line: string, ms: number) =>
  shiftExpiry(
    line.split(" ").map((word) => Buffer.from(word)),
    ms,
  ).join(" ");

test.each([
  ["EXPIRE k 10", "PEXPIRE k 10500"],
  ["expireat k 1700 GT", "PEXPIREAT k 1700500 GT"],
  ["PEXPIRE k 10", "PEXPIRE k 510"],
  ["PEXPIREAT k 1700", "PEXPIREAT k 2200"],
  ["PEXPIREAT k 9007199254740993", "PEXPIREAT k 9007199254741493"],
  ["SETEX k 10 v", "PSETEX k 10500 v"],
  ["PSETEX k 10 v", "PSETEX k 510 v"],
  ["SET k v EX 10", "SET k v PX 10500"],
  ["SET k v NX PXAT 1700 GET", "SET k v NX PXAT 2200 GET"],
  ["SET k ex exat 1700", "SET k ex PXAT 1700500"],
  ["SET k v IFEQ ex EX 10", "SET k v IFEQ ex PX 10500"],
  ["GETEX k PXAT 1700", "GETEX k PXAT 2200"],
  ["HEXPIRE k 10 FIELDS 1 f", "HPEXPIRE k 10500 FIELDS 1 f"],
  ["HPEXPIREAT k 1700 FIELDS 1 f", "HPEXPIREAT k 2200 FIELDS 1 f"],
  ["HSETEX k PXAT 1700 FIELDS 1 ex 10", "HSETEX k PXAT 2200 FIELDS 1 ex 10"],
  ["MSETEX 1 ex 10 EX 10", "MSETEX 1 ex 10 PX 10500"],
  ["RESTORE k 1700 payload ABSTTL", "RESTORE k 2200 payload ABSTTL"],
])("an expiry is moved: %s", (given, wanted) => {
  expect(shifted(given, 500)).toBe(wanted);
});

test.each([
  "SET k ex",
  "SET k v KEEPTTL",
  "HSETEX k FIELDS 1 ex 10",
  "RESTORE k 0 payload",
  "PERSIST k",
  "HSET k ex 10",
  "EXPIRE k",
  "EXPIRE k x",
])("a command without an expiry stays: %s", (given) => {
  expect(shifted(given, 500)).toBe(given);
});

test("an expiry that would be before all time is over", () => {
  expect(shifted("SET k v PX 10", -500)).toBe("SET k v PX 1");
});
