import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The root of this clone, independent of the working directory. */
export function workspaceRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package-lock.json")) && dirname(folder) !== folder) {
    folder = dirname(folder);
  }
  return folder;
}
