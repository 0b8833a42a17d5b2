import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { watchFolder } from "./guardian.ts";

/** Creates an empty folder that is removed at the latest when the test process ends. */
export async function makeTempFolder(label: string): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), `ropeway-${label}-`));
  watchFolder(path);
  return path;
}

/** Removes a folder. Retries, because a server that is exiting may still write to it. */
export async function removeTempFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 5 });
}
