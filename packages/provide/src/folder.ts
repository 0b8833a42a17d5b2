/**
 * Folders made step by step. Node's own `mkdir` with `recursive` makes the parents of whatever answers
 * ENOENT and tries again; under /proc, where nothing can be made, that answer never changes and the
 * call never returns.
 */
import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

/** Makes the folder and its parents unless they are there; the system's error says why it cannot be. */
export async function makeFolder(path: string, mode: number = 0o777): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    if (await isFolder(path)) return;
    const parent = dirname(path);
    const orphan = (error as NodeJS.ErrnoException).code === "ENOENT" && !(await isFolder(parent));
    if (!orphan) throw error;
    await makeFolder(parent, mode);
    await makeFolder(path, mode); // with a parent now, so a second ENOENT is the end
  }
}

function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
