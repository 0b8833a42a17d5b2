/**
 * Creates folders step by step. Node's own `mkdir` with `recursive` creates the parents after each
 * ENOENT and tries again. Under /proc, where nothing can be created, the error never changes and the
 * call never returns.
 */
import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

/** Creates the folder and its parents unless they exist. Rejects with the system's error if it cannot. */
export async function makeFolder(path: string, mode: number = 0o777): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    if (await isFolder(path)) return;
    const parent = dirname(path);
    const orphan = (error as NodeJS.ErrnoException).code === "ENOENT" && !(await isFolder(parent));
    if (!orphan) throw error;
    await makeFolder(parent, mode);
    await makeFolder(path, mode); // the parent exists now, so a second ENOENT is final
  }
}

function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
