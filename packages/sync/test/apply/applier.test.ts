// The batches of a stream, for a target that only remembers them.
import { silentLogger } from "@ropeway/core";
import { expect, test } from "vitest";
import { Applier, type StreamNote } from "../../src/apply/applier.ts";
import { VanishedKeys } from "../../src/apply/vanished-keys.ts";
import { Mapping } from "../../src/mapping.ts";
import type { WireCommand } from "../../src/resp/command-reader.ts";
import type { Transaction } from "../../src/sink/transaction.ts";
import type { Feed } from "../../src/source/feed.ts";
import { encodeCommand } from "../../src/wire/encode.ts";

/** A stream of commands; each is received when it is asked for, or with `arrive`. */
function feedOf(...lines: string[]) {
  const encode = (line: string) => encodeCommand(line.split(" "));
  const chunks = lines.map(encode);
  const arrived: Buffer[] = [];
  let received = 0;
  const given = (chunk: Buffer | undefined) => {
    received += chunk?.length ?? 0;
    return chunk;
  };
  const feed = {
    ...{ where: "here", snapshot: undefined, replid: "r", live: true },
    get waiting() {
      return arrived.length;
    },
    get received() {
      return received;
    },
    read: async () => arrived.shift() ?? given(chunks.shift()),
    readNow: () => arrived.shift(),
    acknowledge() {},
    end: async () => 1_000,
    close: async () => {},
  } satisfies Feed;
  const arrive = (line: string) => arrived.push(given(encode(line)) as Buffer);
  return { feed, arrive, first: chunks[0]?.length ?? 0 };
}

/** Lacks the key "a" at the target; the source is read at the offset. Keys that were looked up are in `asked`. */
function vanishedAt(offset: number) {
  const asked: string[] = [];
  const vanished = new VanishedKeys({
    ...{ setKey: "set", mapping: new Mapping({}), signal, logger: silentLogger },
    reader: async () => ({
      query: async (queries) =>
        queries.map(({ argv }) => {
          if (argv[0] === "PTTL") asked.push(String(argv[1]));
          return String(argv[1]) === "a" ? -2 : -1;
        }),
      now: async () => 0,
      async *pages() {},
      close() {},
    }),
    read: async (_db, keys) => ({
      offset,
      writes: keys.map((key) => [Buffer.from("DEL"), key]),
    }),
  });
  return { vanished, asked };
}

const { signal } = new AbortController();
const OPTIONS = {
  ...{ signal, batchBytes: 1e6, batchCommands: 1e3, from: { replid: "r", offset: 0, db: 0 } },
  translate: {
    command: ({ argv }: WireCommand, db: number, into: Transaction<StreamNote>) =>
      into.command(argv, { argv, db }),
  },
  onApplied() {},
};

test("values that were read are marked, and settled keys are struck out inside the last unit", async () => {
  const { feed, first } = feedOf("HSET a f 1", "HSET b f 1", "HSET b f 2");
  const { vanished } = vanishedAt(first);
  const batches: Transaction<StreamNote>[] = [];
  const target = { apply: async (batch: Transaction<StreamNote>) => void batches.push(batch) };
  await new Applier({ ...OPTIONS, feed, vanished, target, lateUntil: 1_000 }).run();
  const shown = batches.map(({ notes, units }) => [
    notes.map((note) => `${note?.argv.join(" ")}${note?.inserted ? " (inserted)" : ""}`),
    units.map(({ end }) => end),
  ]);
  expect(shown).toEqual([
    [["HSET a f 1"], [1]],
    [["DEL a (inserted)", "HSET b f 1"], [2]],
    [["HSET b f 2", "SREM set 0:a"], [2]],
  ]);
});

test("commands that waited while the batch before them was under way are late, those after them are not", async () => {
  const { feed, arrive } = feedOf("SET x 1", "HSET c f 1");
  const { vanished, asked } = vanishedAt(1e6);
  let applied = 0;
  const target = {
    apply: async () => {
      applied += 1;
      if (applied > 1) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
      arrive("HSET b f 1");
      await new Promise((resolve) => setTimeout(resolve, 1_050));
    },
  };
  await new Applier({ ...OPTIONS, feed, vanished, target }).run();
  expect(applied).toBe(3);
  expect(asked).toEqual(["b"]);
});
