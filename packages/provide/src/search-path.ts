// The directories of PATH, searched in the same way as a shell does.
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";

/** Absolute paths of every executable called `file` on `path`, in its order. */
export async function executablesOnPath(
  file: string,
  path: string | undefined,
): Promise<readonly string[]> {
  // A relative entry would mean another program in every folder, which is a security risk, so it is ignored.
  const folders = (path ?? "").split(delimiter).filter(isAbsolute);
  const candidates = [...new Set(folders)].map((folder) => join(folder, file));
  const fit = await Promise.all(candidates.map(isExecutable));
  return candidates.filter((_, index) => fit[index]);
}

/** Whether a path is a file that this user may execute. */
export async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
