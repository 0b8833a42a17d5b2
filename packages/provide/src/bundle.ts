// Makes a program out of Debian packages without installing them: the packages and the libraries
// they need are unpacked side by side, and a small script starts the program with the loader and
// the libraries from there, so that nothing of the machine but its kernel matters.
//
//   bin/redis-server        exec ../root/…/ld-linux-x86-64.so.2 --library-path … ../root/usr/bin/redis-server "$@"
//
// The script finds everything relative to itself, so a bundle may be moved, and uses nothing but the
// shell, so PATH may be empty. `exec` keeps the process number: a signal reaches the program itself.
import { chmod, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { AptArchive, Package } from "./apt-archive.ts";
import { StepFailedError } from "./errors.ts";
import { executablesOf, PRODUCTS, type ProductName } from "./program.ts";
import { isExecutable } from "./search-path.ts";
import type { BundleLabel } from "./shelf.ts";
import { compareVersions, parseVersion } from "./version.ts";

/** Shared libraries are what a program needs to run; the rest of a closure is there to install and configure. */
const LIBRARY = /^(?:lib|zlib1g|lua)/;
const NOT_A_LIBRARY = /perl|^libpam-|-(?:bin|common)$/;
/** Parts of packages that a running program never reads. */
const DEAD_WEIGHT = ["doc", "man", "lintian", "locale", "bug"];

/** Where a bundle's parts come from and what hears about it. */
export interface BundleSource {
  readonly archive: AptArchive;
  readonly note: (sentence: string) => void;
}

/** Unpacks a product into `folder`, an empty one, and says what it now holds. */
export async function makeBundle(
  product: ProductName,
  folder: string,
  { archive, note }: BundleSource,
): Promise<BundleLabel> {
  const { title, minimum, packages: names } = PRODUCTS[product];
  const closure = await archive.closure(names);
  const version = versionOf(closure, names[0]);
  if (compareVersions(version, minimum) < 0) {
    throw new StepFailedError(`the apt sources have ${title} ${version} and ${minimum} is needed`);
  }
  const packages = closure.filter(
    ({ name }) => names.includes(name) || (LIBRARY.test(name) && !NOT_A_LIBRARY.test(name)),
  );
  note(`Downloading ${title} ${version} with what it needs (${packages.length} packages)`);
  const root = join(folder, "root");
  await archive.unpack(packages, root);
  for (const part of DEAD_WEIGHT) {
    await rm(join(root, "usr/share", part), { recursive: true, force: true });
  }
  await writeStarters(product, folder, await loaderOf(root));
  const label: BundleLabel = {
    product,
    version,
    packages: Object.fromEntries(packages.map((each) => [each.name, each.version])),
  };
  await writeFile(join(folder, "bundle.json"), `${JSON.stringify(label, null, 2)}\n`);
  return label;
}

function versionOf(closure: readonly Package[], name: string | undefined): string {
  const found = closure.find((each) => each.name === name);
  const version = found && parseVersion(found.version);
  if (version === undefined) throw new StepFailedError(`the apt sources have no ${name}`);
  return version;
}

interface Loader {
  /** The dynamic loader, relative to the bundle. */
  readonly path: string;
  /** The folders of shared libraries, relative to the bundle. */
  readonly folders: readonly string[];
}

/** Finds the C library's loader; its folder has the machine's name (x86_64-linux-gnu) on every architecture. */
async function loaderOf(root: string): Promise<Loader> {
  const places = ["lib", "usr/lib"];
  for (const place of places) {
    for (const machine of await readdir(join(root, place)).catch(() => [])) {
      const files = await readdir(join(root, place, machine)).catch(() => []);
      const loader = files.find((file) => /^ld(?:-linux.*|64)\.so\.\d+$/.test(file));
      if (loader !== undefined) {
        return {
          path: `root/${place}/${machine}/${loader}`,
          folders: places.map((each) => `root/${each}/${machine}`),
        };
      }
    }
  }
  throw new StepFailedError("the unpacked packages have no dynamic loader");
}

async function writeStarters(product: ProductName, folder: string, loader: Loader): Promise<void> {
  await mkdir(join(folder, "bin"));
  const libraries = loader.folders.map((each) => `$here/${each}`).join(":");
  for (const file of executablesOf(product)) {
    if (!(await isExecutable(join(folder, "root/usr/bin", file)))) continue;
    const starter = join(folder, "bin", file);
    await writeFile(
      starter,
      `#!/bin/sh\nhere=\${0%/*}/..\nexec "$here/${loader.path}" --library-path "${libraries}" "$here/root/usr/bin/${file}" "$@"\n`,
    );
    await chmod(starter, 0o755);
  }
}
