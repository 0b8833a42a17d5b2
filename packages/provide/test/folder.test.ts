import { mkdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeFolder } from "../src/folder.ts";
import { temporaryFolder } from "./workshop.ts";

test("missing parents are made too, all with the mode; what is there stays as it is", async () => {
  const root = await temporaryFolder();
  await mkdir(join(root, "a"), { mode: 0o755 });
  await Promise.all([1, 2, 3].map(() => makeFolder(join(root, "a", "b", "c"), 0o700)));
  const modes = [["a"], ["a", "b"], ["a", "b", "c"]].map(async (names) => {
    return ((await stat(join(root, ...names))).mode & 0o777).toString(8);
  });
  expect(await Promise.all(modes)).toEqual(["755", "700", "700"]);
});

test("a file or a link to nowhere in the way is the system's error", async () => {
  const root = await temporaryFolder();
  await writeFile(join(root, "file"), "");
  await symlink(join(root, "nowhere"), join(root, "link"));
  await expect(makeFolder(join(root, "file"))).rejects.toMatchObject({ code: "EEXIST" });
  await expect(makeFolder(join(root, "file", "below"))).rejects.toMatchObject({ code: "ENOTDIR" });
  await expect(makeFolder(join(root, "link", "below"))).rejects.toMatchObject({ code: "EEXIST" });
});

test.skipIf(process.platform !== "linux")("where nothing can be made it says so", async () => {
  await expect(makeFolder("/proc/ropeway/below")).rejects.toMatchObject({ code: "ENOENT" });
});
