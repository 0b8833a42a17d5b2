import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { watchFolder } from "./guardian.ts";

/** A new empty folder that goes with the test process at the latest. */
export async function makeTempFolder(label: string): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), `ropeway-${label}-`));
  watchFolder(path);
  return path;
}

/** Removes a folder and all in it; a server that is just exiting may still write, hence retries. */
export async function removeTempFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 5 });
}
