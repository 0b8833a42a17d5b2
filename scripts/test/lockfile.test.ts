// `npm ci` refuses a lock file that lacks a platform's optional package. npm writes such a file without a
// warning if the registry does not have the package, so this test checks for it.
import { readFileSync } from "node:fs";
import { satisfies } from "semver";
import { expect, test } from "vitest";

interface Entry {
  readonly version?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly resolved?: string;
  readonly engines?: { readonly node?: string };
  readonly dependencies?: Record<string, string>;
  readonly optionalDependencies?: Record<string, string>;
}

const lock = JSON.parse(
  readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8"),
) as { packages: Record<string, Entry> };

/** The path at which Node finds `name` from `from`, in its node_modules or in those of a parent folder. */
function locate(from: string, name: string): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/")))) {
    const path = folder === "" ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    if (lock.packages[path] !== undefined) return path;
    if (folder === "") return undefined;
  }
}

test("the lock file has the optional packages of every platform", () => {
  const missing = Object.entries(lock.packages).flatMap(([path, entry]) =>
    Object.keys(entry.optionalDependencies ?? {})
      .filter((name) => locate(path, name) === undefined)
      .map((name) => `${path} -> ${name}`),
  );
  expect(missing).toEqual([]);
});

test("every package that npm downloads has a checksum", () => {
  const unchecked = Object.entries(lock.packages)
    .filter(([path, entry]) => path.includes("node_modules/") && entry.link !== true)
    .filter(([, entry]) => entry.integrity === undefined)
    .map(([path]) => path);
  expect(unchecked).toEqual([]);
});

test("everything that our packages install runs on the oldest Node we support, without a warning", () => {
  const { engines } = JSON.parse(
    readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
  ) as Entry;
  const oldest = `${engines?.node?.replace(">=", "")}.0`;
  const queue = Object.keys(lock.packages).filter((path) => /^packages\/[^/]+$/.test(path));
  const seen = new Set(queue);
  const unfit: string[] = [];
  for (const path of queue) {
    const { engines, dependencies, optionalDependencies, version } = lock.packages[path] as Entry;
    if (!satisfies(oldest, engines?.node ?? "*"))
      unfit.push(`${path} ${version} (${engines?.node})`);
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const found = locate(path, name);
      if (found === undefined || seen.has(found)) continue;
      seen.add(found);
      queue.push(found);
    }
  }
  expect(seen.size).toBeGreaterThan(50);
  expect(unfit).toEqual([]);
});
