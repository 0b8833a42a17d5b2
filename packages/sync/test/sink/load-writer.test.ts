import { expect, test } from "vitest";
import { CommandReader } from "../../src/resp/command-reader.ts";
import type { Lane } from "../../src/sink/lane.ts";
import { LoadWriter } from "../../src/sink/load-writer.ts";
import type { StringPair, Transaction } from "../../src/sink/transaction.ts";

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
  });
}

test("strings of one database travel in one MSET, and those of another one in theirs", async () => {
  const { lane, commands } = recording(() => undefined);
  const writer = writerOf(lane, []);
  const batch = writer.batchFor({ key: Buffer.from("any") });
  batch.pair(pairOf("a", "1"), "a");
  batch.command(["RESTORE", "h", 0, "payload"], "h");
  batch.pair(pairOf("b", "2"), "b");
  expect(batch.writes).toBe(3);
  batch.select(4);
  batch.pair(pairOf("c", "3"), "c");
  await writer.drain();
  expect(commands).toEqual([
    ["RESTORE", "h", "0", "payload"],
    ["MSET", "a", "1", "b", "2"],
    ["SELECT", "4"],
    ["SET", "c", "3"],
    ["SELECT", "0"],
  ]);
});

test("an MSET that fails is written string by string, so that only the guilty ones are reported", async () => {
  const { lane, commands } = recording(([name, key]) =>
    name === "MSET" || key === "b" ? "ERR not this one" : undefined,
  );
  const failures: string[] = [];
  const writer = writerOf(lane, failures);
  for (const key of ["a", "b", "c"])
    writer.batchFor({ key: Buffer.from(key) }).pair(pairOf(key, "1"), key);
  await writer.drain();
  expect(failures).toEqual(["b: ERR not this one"]);
  expect(commands).toEqual([
    ["SET", "a", "1"],
    ["SET", "c", "1"],
  ]);
});
