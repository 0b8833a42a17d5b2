// How a batch is divided among the slots of a cluster, with a writer that only remembers.
import { expect, test } from "vitest";
import { ClusterStream } from "../../src/cluster/cluster-stream.ts";
import type { SlotGroup, SlotWriter } from "../../src/cluster/slot-writer.ts";
import { Transaction } from "../../src/sink/transaction.ts";

function note(line: string, more: { own?: boolean; inserted?: boolean } = {}) {
  return { argv: line.split(" ").map((word) => Buffer.from(word)), db: 0, ...more };
}

/** The commands and places that a slot writer gets for a batch of one unit, which ends at offset 90. */
async function applied(...notes: ReturnType<typeof note>[]) {
  const groups: SlotGroup[] = [];
  const writer = {
    apply: async (_epoch: number, given: readonly SlotGroup[]) => {
      groups.push(...given);
      return [];
    },
  } as unknown as SlotWriter;
  const stream = new ClusterStream({
    ...{ writer, epoch: 1, marks: new Map(), confirmed: new Map(), from: 0, crossSlot: "split" },
    reread: async (keys) => ({
      offset: 90,
      writes: new Map(keys.map((key) => [key, [[Buffer.from("DEL"), key]]])),
    }),
    everywhere: async () => undefined,
    audit: async () => {},
    flush: async () => {},
    checkpoint: async () => {},
    onFailure() {},
  });
  const batch = new Transaction<ReturnType<typeof note>>();
  for (const each of notes.filter(({ own }) => own !== true)) batch.command(each.argv, each);
  batch.endUnit(90);
  for (const each of notes.filter(({ own }) => own === true)) {
    batch.command(each.argv, each);
    batch.endUnit(90);
  }
  await stream.apply(batch, { replid: "r", offset: 90, db: 0 });
  return groups.map(({ commands, place }) => [
    commands.map(({ argv }) => argv.join(" ")).join(", "),
    place?.step,
  ]);
}

test("a value that was read is no step of its unit, because a run that resumes there does not get it", async () => {
  const commands = [note("INCR x"), note("RENAME y z")];
  const inserted = note("DEL a", { inserted: true });
  expect(await applied(inserted, ...commands)).toEqual([
    ["DEL a", 1],
    ["INCR x", 1],
    ["DEL y", 2],
    ["DEL z", 2],
  ]);
});

test("a command of ours behind the last unit belongs to its last step", async () => {
  expect(await applied(note("INCR x"), note("INCR x"), note("SREM s a", { own: true }))).toEqual([
    ["INCR x, INCR x", 2],
    ["SREM s a", 2],
  ]);
});
