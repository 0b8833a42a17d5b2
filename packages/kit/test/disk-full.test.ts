import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";

const folder = await mkdtemp(join(tmpdir(), "ropeway-full-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

test("a disk that takes only a part of a chunk is an error before the next chunk is asked for", async () => {
  // A limit of 300 blocks of 1,024 bytes per file stands for the end of the disk.
  const script = fileURLToPath(new URL("./disk-full.fixture.ts", import.meta.url));
  const loader = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
  const node = [
    process.execPath,
    "--conditions=@ropeway/source",
    "--import",
    loader,
    script,
    folder,
  ];
  const limited = "trap '' XFSZ; ulimit -f 300; exec \"$@\"";
  const { stdout } = await promisify(execFile)("bash", ["-c", limited, "bash", ...node]);
  expect(JSON.parse(stdout)).toEqual({ asked: 2, code: "EFBIG" });
}, 60_000);
