import { expect, test } from "vitest";
import { CommandReader } from "../../src/resp/command-reader.ts";
import type { StringPair } from "../../src/resp/mset-writer.ts";
import type { Lane } from "../../src/sink/lane.ts";
import { LoadWriter } from "../../src/sink/load-writer.ts";
import type { Transaction } from "../../src/sink/transaction.ts";

/** A lane that remembers commands, and fails those that the function names. */
function recording(fails: (argv: string[]) => string | undefined): {
  lane: Lane;
  commands: string[][];
} {
  const commands: string[][] = [];
  const commit = async (transaction: Transaction<unknown>) => {
    const reader = new CommandReader();
    for (const piece of transaction.encoded()) reader.push(piece);
    const errors: { index: number; reply: string }[] = [];
    for (let index = 0, next = reader.next(); next !== undefined; next = reader.next(), index++) {
      const argv = next.argv.map(String);
      const reply = fails(argv);
      if (reply === undefined) commands.push(argv);
      else errors.push({ index, reply });
    }
    return { applied: true, errors, reply: "" };
  };
  return { lane: { commit } as unknown as Lane, commands };
}

function pairOf(key: string, value: string): StringPair {
  const [keyBytes, bytes] = [Buffer.from(key), Buffer.from(value)];
  const place = { keyBytes, keyStart: 0, keyEnd: keyBytes.length };
  return { ...place, bytes, textStart: 0, rawEnd: bytes.length };
}

function writerOf(lane: Lane, failures: string[]): LoadWriter<string> {
  return new LoadWriter<string>({
    ...{ where: "here", lanes: [lane], epoch: 1, batchBytes: 1_000_000, batchCommands: 1_000 },
    onFailure: async (note, reply) => {
      failures.push(`${note}: ${reply}`);
    },
    noteOf: ({ argv, db }) => `${argv.join(" ")} in ${db}`,
  });
}

test("strings of one database travel in one MSET, and those of another one in theirs", async () => {
  const { lane, commands } = recording(() => undefined);
  const writer = writerOf(lane, []);
  const batch = writer.batchFor({ key: Buffer.from("any") });
  batch.pair(pairOf("a", "1"));
  batch.command(["RESTORE", "h", 0, "payload"], "h");
  batch.pair(pairOf("b", "2"));
  expect(batch.writes).toBe(3);
  batch.select(4);
  batch.pair(pairOf("c", "3"));
  await writer.drain();
  expect(commands).toEqual([
    ["RESTORE", "h", "0", "payload"],
    ["MSET", "a", "1", "b", "2"],
    ["SELECT", "4"],
    ["MSET", "c", "3"],
    ["SELECT", "0"],
  ]);
});

test("an MSET that fails is written string by string, so that only the guilty ones are reported", async () => {
  const { lane, commands } = recording(([name, key]) =>
    name === "MSET" || key === "b" ? "ERR not this one" : undefined,
  );
  const failures: string[] = [];
  const writer = writerOf(lane, failures);
  writer.current.select(3);
  for (const key of ["a", "b", "c"]) writer.current.pair(pairOf(key, "1"));
  await writer.drain();
  expect(failures).toEqual(["SET b 1 in 3: ERR not this one"]);
  expect(commands.filter(([name]) => name !== "SELECT")).toEqual([
    ["SET", "a", "1"],
    ["SET", "c", "1"],
  ]);
});

test("a command without a note that fails is read back with its database", async () => {
  const { lane, commands } = recording(([, key]) => (key === "bad" ? "ERR refused" : undefined));
  const failures: string[] = [];
  const writer = writerOf(lane, failures);
  const large = "x".repeat(20_000); // is passed on and not copied
  for (const [db, key] of [
    [0, "good"],
    [2, "bad"],
    [2, "good"],
    [5, "bad"],
  ] as const) {
    writer.current.select(db);
    writer.current.pair(pairOf("string", "1"));
    writer.current.writer().command(["RESTORE", key, large]);
  }
  await writer.drain();
  expect(failures).toEqual([
    `RESTORE bad ${large} in 2: ERR refused`,
    `RESTORE bad ${large} in 5: ERR refused`,
  ]);
  expect(commands.filter(([name]) => name === "RESTORE")).toHaveLength(2);
  expect(commands.filter(([name]) => name === "MSET")).toHaveLength(3);
});

test("memory of applied transactions is used again, and no command is damaged by that", async () => {
  const { lane, commands } = recording(() => undefined);
  const writer = writerOf(lane, []);
  const expected: Record<string, string> = {};
  for (let n = 0; n < 5_000; n++) {
    const value = String(n).repeat(n % 100);
    expected[`k${n}`] = value;
    if (n % 3 === 0) writer.current.writer().command(["RESTORE", `k${n}`, value]);
    else writer.current.pair(pairOf(`k${n}`, value));
    await writer.written();
  }
  await writer.drain();
  const written: Record<string, string> = {};
  for (const [name, ...args] of commands) {
    if (name === "SELECT") continue;
    for (let at = 0; at < args.length; at += 2) written[String(args[at])] = String(args[at + 1]);
  }
  expect(written).toEqual(expected);
});
