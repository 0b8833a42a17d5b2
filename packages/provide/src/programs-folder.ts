// The folder for unpacked programs, with one bundle per product and version:
//
//   <programs>/
//     .lock/               held while a program is being added (lock.ts)
//     .partial-<random>/   being filled; used only by the process that created it
//     redis-7.0.15/
//       bundle.json        describes the bundle; written last
//       bin/redis-server   starts the program below (bundle.ts)
//       root/              the packages, unpacked
//
// Invariant: a bundle gets its name by one rename when it is complete and has run once. So a
// crash leaves only a .partial folder, which is never used and which the next download removes. A
// bundle that was damaged later fails the examination of every candidate, and is replaced.
import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Candidate } from "./candidate.ts";
import type { ProductName, Program } from "./program.ts";
import { isExecutable } from "./search-path.ts";
import { compareVersions } from "./version.ts";

const PARTIAL = ".partial-";

/** The content of `bundle.json`. */
export interface BundleLabel {
  readonly product: ProductName;
  readonly version: string;
  /** Every package in it, with its full version. */
  readonly packages: Readonly<Record<string, string>>;
}

/** The bundles that hold the program: the preferred product first, then the newest version. */
export async function storedPrograms(
  program: Program,
  folder: string,
): Promise<readonly Candidate[]> {
  const names = await readdir(folder).catch(() => []);
  const bundles = await Promise.all(
    names
      .filter((name) => !name.startsWith("."))
      .map(async (name) => ({ name, label: await labelOf(join(folder, name)) })),
  );
  bundles.sort((a, b) => compareVersions(b.label?.version ?? "0", a.label?.version ?? "0"));
  const found: Candidate[] = [];
  for (const { product, file } of program.executables) {
    for (const { name, label } of bundles) {
      const path = join(folder, name, "bin", file);
      if (label?.product === product && (await isExecutable(path))) {
        found.push({ path, origin: "home" });
      }
    }
  }
  return found;
}

async function labelOf(bundle: string): Promise<BundleLabel | undefined> {
  try {
    return JSON.parse(await readFile(join(bundle, "bundle.json"), "utf8")) as BundleLabel;
  } catch {
    return undefined;
  }
}

/** Creates a folder to fill, and first removes folders that a crash left. Needs the lock. */
export async function openPartial(folder: string): Promise<string> {
  for (const name of await readdir(folder)) {
    if (name.startsWith(PARTIAL) || name.startsWith(".lock-")) await sweep(join(folder, name));
  }
  const partial = join(folder, `${PARTIAL}${randomUUID()}`);
  await mkdir(partial);
  return partial;
}

/** A download of a crashed process may continue for a while; its files are removed next time. */
async function sweep(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 50 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOTEMPTY") throw error;
  }
}

/** Gives a complete bundle its name and replaces a damaged one of the same name. Needs the lock. */
export async function place(bundle: string, target: string): Promise<void> {
  try {
    await rename(bundle, target);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOTEMPTY" && code !== "EEXIST" && code !== "ENOTDIR") throw error;
    await rename(target, `${bundle}-damaged`);
    await rename(bundle, target);
  }
}
