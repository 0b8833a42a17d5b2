// Makes a program from Debian packages without installing them: the packages and the shared
// libraries they need are unpacked into one folder, and a small script starts the program with
// these libraries (starter.ts).
import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { AptArchive, Package } from "./apt-archive.ts";
import { StepFailedError } from "./errors.ts";
import { executablesOf, PRODUCTS, type ProductName } from "./program.ts";
import type { BundleLabel } from "./programs-folder.ts";
import { isExecutable } from "./search-path.ts";
import { FONTS, librariesOf, starter } from "./starter.ts";
import { compareVersions, parseVersion } from "./version.ts";

/** A program needs shared libraries to run; the other packages only install and configure. */
const LIBRARY = /^(?:lib|zlib1g|lua)/;
/** Parts of packages that a running program never reads. */
const DEAD_WEIGHT = ["doc", "man", "lintian", "locale", "bug"];

/** The source of a bundle's parts. */
export interface BundleSource {
  readonly archive: Pick<AptArchive, "closure" | "unpack">;
  readonly note: (sentence: string) => void;
}

/** Unpacks a product into `folder`, which is empty, and returns its content. */
export async function makeBundle(
  product: ProductName,
  folder: string,
  { archive, note }: BundleSource,
): Promise<BundleLabel> {
  const { title, minimum, packages: names, unneeded } = PRODUCTS[product];
  const closure = await archive.closure(names);
  const version = versionOf(closure, names[0]);
  if (compareVersions(version, minimum) < 0) {
    throw new StepFailedError(`the apt sources have ${title} ${version} and ${minimum} is needed`);
  }
  const packages = closure.filter(
    ({ name }) => names.includes(name) || (LIBRARY.test(name) && !unneeded.test(name)),
  );
  note(`Downloading ${title} ${version} and its dependencies (${packages.length} packages)`);
  const root = join(folder, "root");
  await archive.unpack(packages, root);
  for (const part of DEAD_WEIGHT) {
    await rm(join(root, "usr/share", part), { recursive: true, force: true });
  }
  await writeStarters(product, folder);
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

async function writeStarters(product: ProductName, folder: string): Promise<void> {
  const { home, loader } = PRODUCTS[product];
  const libraries = await librariesOf(folder);
  await mkdir(join(folder, "bin"));
  if (loader === "system") await writeFile(join(folder, "fonts.conf"), FONTS);
  for (const file of executablesOf(product)) {
    const executable = `root/${home}/${file}`;
    if (!(await isExecutable(join(folder, executable)))) continue;
    await writeFile(join(folder, "bin", file), starter(executable, PRODUCTS[product], libraries));
    await chmod(join(folder, "bin", file), 0o755);
  }
}
