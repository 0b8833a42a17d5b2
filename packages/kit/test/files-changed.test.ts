import { appendFileSync, truncateSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AbortedError } from "@ropeway/core";
import { afterAll, describe, expect, test } from "vitest";
import { Files, type Progress, SourceChangedError, saveTo } from "../src/files/index.ts";
import { twoConnections } from "./two-connections.ts";

const { redis, other, fresh } = await twoConnections("changed");
const folder = await mkdtemp(join(tmpdir(), "ropeway-changed-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("a file that changes while it is sent", () => {
  const CHUNK = 131_072;
  const written = async (size: number) => {
    const [channel, r] = [fresh(), fresh()];
    const path = join(folder, channel);
    await writeFile(path, Buffer.alloc(size, 1));
    return { channel, r, path, files: new Files(redis, channel, { chunkBytes: CHUNK }) };
  };

  test("is sent as large as it was at the beginning, if it grows", async () => {
    const { channel, r, path, files } = await written(3 * CHUNK);
    const receiving = new Files(other, channel).receive(r, saveTo(join(folder, r)), { files: 1 });
    const onProgress = () => appendFileSync(path, Buffer.alloc(CHUNK, 2));
    const published = await files.publish(path, { receivers: [r], name: "grown", onProgress });
    expect(published.bytes).toBe(3 * CHUNK);
    expect(await receiving).toEqual({ files: 1, missed: [] });
    expect(await readFile(join(folder, r, "grown"))).toEqual(Buffer.alloc(3 * CHUNK, 1));
  });

  test("is refused if it grew between the last chunk and a crash", async () => {
    const { channel, r, path, files } = await written(CHUNK + 100);
    const crash = new AbortController();
    const onProgress = ({ bytes }: Progress) => bytes > CHUNK && crash.abort();
    const how = { receivers: [r], name: "appended", id: "mine" };
    const first = files.publish(path, { ...how, onProgress, signal: crash.signal });
    await expect(first).rejects.toThrow(AbortedError);
    appendFileSync(path, "more");
    await expect(files.publish(path, how)).rejects.toThrow(SourceChangedError);
    truncateSync(path, CHUNK + 100);
    const receiving = new Files(other, channel).receive(r, saveTo(join(folder, r)), { files: 1 });
    await files.publish(path, how);
    expect(await receiving).toEqual({ files: 1, missed: [] });
  });

  test.each(["chunks", "documented"] as const)(
    "is not delivered as a whole one if it shrinks, in %s",
    async (wire) => {
      const { channel, r, path, files } = await written(20 * CHUNK);
      const onProgress = () => truncateSync(path, 0);
      const how = { receivers: [r], name: "shrunk", wire, onProgress };
      const receiving = new Files(other, channel).receive(r, saveTo(join(folder, r)));
      await expect(files.publish(path, how)).rejects.toThrow(SourceChangedError);
      await files.end();
      expect(await receiving).toMatchObject({ files: 0 });
    },
  );
});
