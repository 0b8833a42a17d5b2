// The bookkeeping of keys in doubt, with a target of a few sets and lifetimes.
import { silentLogger } from "@ropeway/core";
import { expect, test } from "vitest";
import { VanishedKeys } from "../../src/apply/vanished-keys.ts";
import { Mapping } from "../../src/mapping.ts";
import { Transaction } from "../../src/sink/transaction.ts";

function note(line: string, more: { inserted?: boolean } = {}) {
  return { argv: line.split(" ").map((word) => Buffer.from(word)), db: 0, ...more };
}

/** Keys that are in doubt, beside a target that has the lifetimes. The source is read at offset 100. */
function setUp(lifetimes: Record<string, number>) {
  const noted = new Set<string>();
  let asked = 0;
  const vanished = new VanishedKeys({
    setKey: "set",
    mapping: new Mapping({}),
    signal: new AbortController().signal,
    logger: silentLogger,
    reader: async () => ({
      query: async (queries) => {
        asked += queries.length;
        return queries.map(({ argv }) => {
          const [name, key, ...members] = argv.map(String);
          if (name === "PTTL") return lifetimes[key as string] ?? -2;
          for (const member of members) noted.add(member);
          return members.length;
        });
      },
      now: async () => 0,
      async *pages() {},
      close() {},
    }),
    read: async (_db, keys) => ({
      offset: 100,
      writes: keys.map((key) => [Buffer.from("DEL"), key]),
    }),
  });
  return {
    vanished,
    noted,
    get asked() {
      return asked;
    },
  };
}

/** A target that lacks "a", which a late command has changed, and whose value has been read. */
async function inDoubt(lifetimes: Record<string, number> = {}) {
  const made = setUp(lifetimes);
  const late = [note("HSET a f 1")];
  await made.vanished.check(late, true);
  expect([...made.noted]).toEqual(["0:a"]);
  await made.vanished.doubt(late, 0);
  made.vanished.applied(50);
  await made.vanished.pending();
  return made;
}

test("a key that is made of one in doubt is in doubt, also in the batch that writes what was read", async () => {
  const { vanished, noted } = await inDoubt();
  expect([...vanished.before(50, 100)]).toEqual([]);
  expect([...vanished.before(100, 120)]).toHaveLength(1);
  const batch = [note("RENAME a b"), note("SWAPDB 0 3"), note("DEL a", { inserted: true })];
  await vanished.check([...batch, note("COPY a c")], false);
  expect([...noted].sort()).toEqual(["0:a", "0:b", "3:a", "3:b"]);
});

test("a key is not in doubt again for what came before its value was written", async () => {
  const { vanished } = await inDoubt();
  // The next batch is filled while the one before it is still to be checked.
  expect([...vanished.before(100, 120)]).toHaveLength(1);
  await vanished.check([note("HSET a f 2")], false);
  expect(vanished.due).toBe(false);
  await vanished.check([note("HSET a f 3"), note("DEL a", { inserted: true })], false);
  expect(vanished.due).toBe(false);
});

test("an error counts unless all keys of its command are written as a whole behind it", async () => {
  const { vanished } = await inDoubt();
  expect([...vanished.before(100, 120)]).toHaveLength(1);
  const before = note("HSET a f 2");
  const both = note("MSET a 1 b 2");
  const union = note("SUNIONSTORE b a");
  const value = note("DEL a", { inserted: true });
  const behind = note("HSET a f 3");
  await vanished.check([before, both, union, note("SET b 1"), value, behind], false);
  const explained = (each: typeof before) => vanished.explains(each, "ERR unknown command");
  expect([before, both, union, value, behind].map(explained)).toEqual([
    ...[true, true, true],
    ...[false, false],
  ]);
  const other = note("MSET a 1 c 2");
  await vanished.check([other], false);
  expect(explained(other)).toBe(false);
});

test("an error counts if its key is in another database after a swap", async () => {
  const { vanished } = await inDoubt();
  const [first, second] = [note("HSET c f 1"), note("HSET a f 1")];
  await vanished.check([first, second, note("SWAPDB 0 3"), note("SET c 1")], false);
  expect(vanished.explains(first, "ERR unknown command")).toBe(false);
  expect(vanished.explains(second, "ERR unknown command")).toBe(true);
});

test("a key that is in doubt again when it would be struck out stays in the set", async () => {
  const { vanished } = await inDoubt();
  expect([...vanished.before(100, 120)]).toHaveLength(1);
  vanished.applied(120);
  const batch = new Transaction<ReturnType<typeof note>>();
  await vanished.check([note("HSET a f 2")], true);
  expect(vanished.after(batch)).toBe(false);
  expect(batch.empty).toBe(true);
  expect(vanished.due).toBe(true);
});

test("a settled key is struck out with the next batch", async () => {
  const { vanished } = await inDoubt();
  expect([...vanished.before(100, 120)]).toHaveLength(1);
  expect(vanished.settled).toBe(false);
  vanished.applied(120);
  expect(vanished.settled).toBe(true);
  const batch = new Transaction<ReturnType<typeof note>>();
  await vanished.check([note("HSET b f 2")], false);
  expect(vanished.after(batch)).toBe(true);
  expect(batch.notes.map((each) => each?.argv.join(" "))).toEqual(["SREM set 0:a"]);
});

test("a batch that was not late, but took long to be applied, puts its keys in doubt", async () => {
  const { vanished, noted } = setUp({});
  const batch = [note("INCR a"), note("SET b 1")];
  await vanished.check(batch, false);
  await vanished.doubt(batch, 900);
  expect([...noted]).toEqual([]);
  await vanished.check(batch, false);
  await vanished.doubt(batch, 1_100);
  expect([...noted]).toEqual(["0:a"]);
});

test("the target is asked nothing about batches that are not late", async () => {
  const made = setUp({});
  for (let i = 0; i < 10; i++) {
    await made.vanished.check([note("INCR a")], false);
    await made.vanished.doubt([note("INCR a")], 10);
  }
  expect(made.asked).toBe(0);
});
