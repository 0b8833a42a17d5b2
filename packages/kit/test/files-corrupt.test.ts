/** A receiver whose file cannot become complete any more continues with the files after it. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, rm, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError } from "@ropeway/core";
import { afterAll, expect, test } from "vitest";
import { CorruptFileError, Files, saveTo } from "../src/files/index.ts";
import { twoConnections } from "./two-connections.ts";

const { redis, other, fresh } = await twoConnections("corrupt");
const folder = await mkdtemp(join(tmpdir(), "ropeway-corrupt-"));
afterAll(() => rm(folder, { recursive: true, force: true }));
const CHUNK = 131_072;
const how = { chunkBytes: CHUNK, leaseMs: 1_000 };

async function* of(...parts: unknown[]): AsyncGenerator<Buffer> {
  yield* parts as Buffer[];
}

test.each([
  ["was removed while its receiver was away", (part: string) => rm(part)],
  ["is another one", (part: string) => writeFile(part, "short")],
])("a part that %s ends the file for its receiver", async (_what, damage) => {
  const channel = fresh();
  const home = join(folder, channel);
  const files = new Files(redis, channel, how);
  const first = files.publish(of(randomBytes(3 * CHUNK)), { receivers: ["r"], name: "f" });
  const stop = new AbortController();
  const onProgress = ({ bytes }: { bytes: number }) => bytes > CHUNK && stop.abort();
  const receiver = () => new Files(other, channel, how);
  const stopped = receiver().receive("r", saveTo(home), { signal: stop.signal, onProgress });
  await expect(stopped).rejects.toThrow();
  await damage(join(home, ".f.part"));
  await expect(receiver().receive("r", saveTo(home))).rejects.toThrow(CorruptFileError);
  const again = receiver().receive("r", saveTo(home), { files: 1 });
  expect((await first).dropped).toBe(1);
  await files.publish(of(Buffer.from("next")), { receivers: ["r"], name: "next" });
  expect(await again).toEqual({ files: 1, missed: [] });
  expect(await readdir(home)).toContain("next");
});

test("a part that is removed while its file is received ends the file for its receiver", async () => {
  const channel = fresh();
  const home = join(folder, channel);
  const files = new Files(redis, channel, how);
  const first = files.publish(of(randomBytes(2 * CHUNK)), { receivers: ["r"], name: "f" });
  const save = saveTo(home);
  const receiving = new Files(other, channel, how).receive("r", async (file) => {
    const chunks = async function* () {
      yield* file;
      await unlink(join(home, ".f.part"));
    };
    const { name, size, offset } = file;
    const sha256 = () => file.sha256;
    await save({
      name,
      size,
      offset,
      get sha256() {
        return sha256();
      },
      [Symbol.asyncIterator]: chunks,
    });
  });
  await expect(receiving).rejects.toThrow(CorruptFileError);
  expect((await first).dropped).toBe(1);
});

test.each([["text"], [null], [undefined], [1], [{}], [[]], [""], [{ length: 0 }]])(
  "a stream that yields %j is refused",
  async (part) => {
    const publishing = new Files(redis, fresh(), how).publish(of(part), { receivers: ["r"] });
    await expect(publishing).rejects.toThrow(InvalidArgumentError);
  },
);

test.each([
  ["without an id", {}, 0],
  ["with an id", { id: "i" }, 1],
])("a file sent %s leaves fences: %o", async (_what, id, fences) => {
  const channel = fresh();
  const receiving = new Files(other, channel).receive("r", async (file) => {
    for await (const _ of file);
  });
  const files = new Files(redis, channel);
  await files.publish(of(new Uint8Array([1, 2])), { receivers: ["r"], ...id });
  await files.end();
  expect(await receiving).toEqual({ files: 1, missed: [] });
  const left = await redis.send<string[]>(["KEYS", `lock-fence:{lock:file:${channel}:*`]);
  expect(left).toHaveLength(fences);
});
