// The folder where unpacked programs are kept, one bundle per product and version:
//
//   <programs>/
//     .lock/               held while something is brought (lock.ts)
//     .partial-<random>/   being filled, of use to its maker only
//     redis-7.0.15/
//       bundle.json        what this is; written last
//       bin/redis-server   starts the program below (bundle.ts)
//       root/              the packages, unpacked
//
// Invariant: a bundle takes its name by one rename when it is whole and has been seen to run, so a
// crash leaves only a .partial folder, which nobody believes and the next filling sweeps away. A
// bundle that was damaged later fails the examination every candidate passes, and is replaced.
import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Candidate } from "./candidate.ts";
import type { ProductName, Program } from "./program.ts";
import { isExecutable } from "./search-path.ts";
import { compareVersions } from "./version.ts";

const PARTIAL = ".partial-";

/** What `bundle.json` says. */
export interface BundleLabel {
  readonly product: ProductName;
  readonly version: string;
  /** Every package in it, with its full version. */
  readonly packages: Readonly<Record<string, string>>;
}

/** The bundles that hold the program: the preferred product first, then the newest version. */
export async function shelved(program: Program, folder: string): Promise<readonly Candidate[]> {
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

/** A fresh folder to fill; what crashed fillings left is swept away first. Needs the lock. */
export async function openPartial(folder: string): Promise<string> {
  for (const name of await readdir(folder)) {
    if (name.startsWith(PARTIAL) || name.startsWith(".lock-")) await sweep(join(folder, name));
  }
  const partial = join(folder, `${PARTIAL}${randomUUID()}`);
  await mkdir(partial);
  return partial;
}

/** A download of the crashed filling may go on for a while: what it still writes is swept next time. */
async function sweep(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 50 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOTEMPTY") throw error;
  }
}

/** Gives a whole bundle its name, in place of a damaged one of the same name. Needs the lock. */
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
