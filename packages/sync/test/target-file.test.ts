import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LeaseLostError } from "@ropeway/core";
import { afterAll, expect, test } from "vitest";
import { TargetFileError } from "../src/errors.ts";
import { TargetFile } from "../src/file/target-file.ts";

const folder = mkdtempSync(join(tmpdir(), "ropeway-target-file-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("an older run of a task is refused by its file when a newer one has begun", async () => {
  const options = { path: join(folder, "a.aof"), task: "t", overwrite: false };
  const older = new TargetFile(options);
  const newer = new TargetFile(options);
  const first = await older.claim(undefined);
  await older.enter({ ...first, phase: "stream", offset: 1 });
  await older.append([Buffer.from("old")], { ...first, phase: "stream", offset: 2 });
  await older.append([Buffer.from("written behind the checkpoint")]);
  const second = await newer.claim(undefined);
  expect(second).toMatchObject({ epoch: 2, offset: 2, phase: "stream" });
  const late = older.append([Buffer.from("late")], { ...first, phase: "stream", offset: 3 });
  await expect(late).rejects.toBeInstanceOf(LeaseLostError);
  await newer.append([Buffer.from("new")], { ...second, offset: 3 });
  expect(readFileSync(options.path, "utf8")).toBe("oldnew");
  await expect(new TargetFile(options).claim(1)).rejects.toBeInstanceOf(LeaseLostError);
  await older.close();
  await newer.close();
});

test.skipIf(!existsSync("/dev/full"))(
  "a full disk is an error with the path and what to do",
  async () => {
    const path = join(folder, "full.aof");
    const file = new TargetFile({ path, task: "t", overwrite: false });
    const claimed = await file.claim(undefined);
    await file.enter({ ...claimed, phase: "stream", offset: 1 });
    symlinkSync("/dev/full", `${path}.checkpoint.new`);
    const append = file.append([Buffer.from("x")], { ...claimed, phase: "stream", offset: 2 });
    await expect(append).rejects.toBeInstanceOf(TargetFileError);
    await expect(append).rejects.toThrow(`cannot write ${path}: the disk is full. Free some space`);
    await file.close();
  },
);

test("a folder that does not exist is an error with the path", async () => {
  const path = join(folder, "nowhere", "a.aof");
  const file = new TargetFile({ path, task: "t", overwrite: false });
  const claim = file.claim(undefined);
  await expect(claim).rejects.toThrow(`cannot write ${path}: the folder does not exist`);
});
