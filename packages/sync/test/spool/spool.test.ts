import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { Segment } from "../../src/spool/segment.ts";
import { type Blocks, Spool } from "../../src/spool/spool.ts";

const dir = mkdtempSync(join(tmpdir(), "spool-test-"));
afterAll(() => rmSync(dir, { recursive: true }));

const SMALL = { dir, memoryBytes: 100, diskBytes: 1_000_000, blockBytes: 64, segmentBytes: 256 };

async function readAll(spool: Spool): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let chunk = await spool.read(); chunk !== undefined; chunk = await spool.read()) {
    pieces.push(chunk);
  }
  return Buffer.concat(pieces);
}

test("bytes come out as they went in, whatever part of them was on disk", async () => {
  const step = fc.oneof(fc.integer({ min: 1, max: 200 }), fc.constant("read" as const));
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const spool = new Spool(SMALL);
      const written: Buffer[] = [];
      const read: Buffer[] = [];
      let value = 0;
      for (const each of steps) {
        if (each === "read") {
          if (spool.bytes > 0) read.push((await spool.read()) ?? Buffer.alloc(0));
          continue;
        }
        const chunk = Buffer.from(Array.from({ length: each }, () => value++ & 0xff));
        written.push(chunk);
        await spool.append(chunk);
      }
      spool.end();
      read.push(await readAll(spool));
      expect(Buffer.concat(read)).toEqual(Buffer.concat(written));
      expect(spool.bytes).toBe(0);
      await spool.close();
    }),
    { numRuns: 100 },
  );
});

test("nothing stays in the folder, and the spilled bytes are counted", async () => {
  const spool = new Spool(SMALL);
  for (let i = 0; i < 50; i++) await spool.append(Buffer.alloc(50, i));
  expect(spool.spilled).toBeGreaterThan(0);
  expect(readdirSync(dir)).toEqual([]);
  await spool.close();
  expect(spool.bytes).toBe(0);
});

test("a block that changed on its way to the disk and back is an error", async () => {
  const segment = await Segment.create(dir);
  await segment.write(Buffer.from("a whole block"));
  const block = Buffer.from("a block that is damaged");
  const writing = segment.write(block);
  block[3] = 0; // after its checksum was computed
  await writing;
  expect(String(await segment.read())).toBe("a whole block");
  await expect(segment.read()).rejects.toThrow(/damaged/);
  await segment.close();
});

test("at its bound the spool makes the writer wait for the reader", async () => {
  const spool = new Spool({ ...SMALL, diskBytes: 128 });
  let written = 0;
  const writing = (async () => {
    for (let i = 0; i < 20; i++) {
      await spool.append(Buffer.alloc(64, i));
      written += 1;
    }
    spool.end();
  })();
  // Enough turns for all blocks, if nothing held the writer back.
  for (let turn = 0; turn < 200; turn++) await stat(dir);
  expect(written).toBeLessThan(10);
  expect((await readAll(spool)).length).toBe(20 * 64);
  await writing;
  await spool.close();
});

test("a reader gets the error after the last byte, and an abort ends its wait", async () => {
  const spool = new Spool(SMALL);
  const stop = new AbortController();
  const waiting = spool.read(stop.signal);
  stop.abort();
  await expect(waiting).rejects.toThrow();
  await spool.append(Buffer.from("last"));
  spool.end(new Error("the link is lost"));
  expect(String(await spool.read())).toBe("last");
  await expect(spool.read()).rejects.toThrow("the link is lost");
  await spool.close();
});

/** Segments on a disk that holds so many bytes; what was read is free only when its segment is closed. */
function diskOf(bytes: number): (dir: string) => Promise<Blocks> {
  let used = 0;
  return async (folder) => {
    const segment = await Segment.create(folder);
    return {
      get written() {
        return segment.written;
      },
      read: () => segment.read(),
      write: async (block) => {
        if (used + block.length > bytes) {
          throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
        }
        used += block.length;
        await segment.write(block);
      },
      close: async () => {
        used = 0;
        await segment.close();
      },
    };
  };
}

for (const [disk, bytes] of [
  ["a full disk", 200],
  ["a disk without any room", 0],
] as const) {
  test(`${disk} makes the writer wait, and nothing is lost`, async () => {
    const spool = new Spool({ ...SMALL, segmentBytes: 1_000_000 }, diskOf(bytes));
    const chunks = Array.from({ length: 60 }, (_, i) => Buffer.alloc(50, i));
    const writing = (async () => {
      for (const chunk of chunks) await spool.append(chunk);
      spool.end();
    })();
    expect(await readAll(spool)).toEqual(Buffer.concat(chunks));
    await writing;
    await spool.close();
  });
}
