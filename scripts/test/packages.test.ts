// Checks the tarball of each package.
import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { manifestOf, publicPackages } from "../docs/consumer.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const packages = publicPackages(root).map((folder) => [basename(folder), folder] as const);
const { version } = manifestOf(join(root, "packages", "core"));

describe.each(packages)("%s", (name, folder) => {
  const manifest = manifestOf(folder);

  test("has a README and a licence", () => {
    expect(existsSync(join(folder, "README.md"))).toBe(true);
    expect(existsSync(join(folder, "LICENSE"))).toBe(true);
  });

  test("has a description, a repository, keywords, a licence and a Node version", () => {
    expect(manifest.description.length).toBeGreaterThan(20);
    expect(manifest.repository.directory).toBe(`packages/${name}`);
    expect(manifest.keywords.length).toBeGreaterThan(2);
    expect(manifest.license).toBe("MIT");
    expect(manifest.engines).toEqual({ node: ">=20.19" });
  });

  test("has the version of all packages", () => {
    expect(manifest.version).toBe(version);
    const own = Object.entries(manifest.dependencies ?? {}).filter(([name]) =>
      /^@ropeway\//.test(name),
    );
    expect(own.filter(([, range]) => range !== version)).toEqual([]);
  });
});
