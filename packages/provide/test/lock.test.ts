import { spawnSync } from "node:child_process";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { withLock } from "../src/lock.ts";
import { type ResolvedProvideOptions, resolveProvideOptions } from "../src/options.ts";
import { temporaryFolder } from "./workshop.ts";

async function resolved(
  options: { signal?: AbortSignal; notes?: string[] } = {},
): Promise<ResolvedProvideOptions> {
  const { notes = [], ...rest } = options;
  const folder = join(await temporaryFolder(), "programs");
  return resolveProvideOptions({ ...rest, folder, onProgress: (sentence) => notes.push(sentence) });
}

test("one works at a time, the others wait, and nothing is left", async () => {
  const notes: string[] = [];
  const shared = await resolved({ notes });
  let inside = 0;
  const turns = await Promise.all(
    [1, 2, 3].map((turn) =>
      withLock(shared, async () => {
        inside += 1;
        expect(inside).toBe(1);
        await new Promise(setImmediate);
        inside -= 1;
        return turn;
      }),
    ),
  );
  expect(turns).toEqual([1, 2, 3]);
  expect(notes).toContain(`Waiting for another process that is filling ${shared.folder}`);
  expect(await readdir(shared.folder)).toEqual([]);
});

test("the lock is free again after work that failed", async () => {
  const shared = await resolved();
  await expect(withLock(shared, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  await expect(withLock(shared, async () => "yes")).resolves.toBe("yes");
});

test("the lock of a process that is gone is taken over at once", async () => {
  const shared = await resolved();
  const { pid } = spawnSync("true");
  await mkdir(join(shared.folder, ".lock"), { recursive: true });
  await writeFile(join(shared.folder, ".lock", "owner"), `${hostname()} ${pid} x`);
  await expect(withLock(shared, async () => "mine")).resolves.toBe("mine");
});

test("waiting for a lock ends with the signal", async () => {
  const shared = await resolved({ signal: AbortSignal.timeout(200) });
  await mkdir(join(shared.folder, ".lock"), { recursive: true });
  await writeFile(join(shared.folder, ".lock", "owner"), `${hostname()} ${process.pid} x`);
  await expect(withLock(shared, async () => "never")).rejects.toThrow(/abort/i);
});
