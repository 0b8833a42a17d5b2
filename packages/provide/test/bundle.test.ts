// What is taken from an archive and what is left; the archive is a list here, download.test.ts has
// the real one.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Package } from "../src/apt-archive.ts";
import { makeBundle } from "../src/bundle.ts";
import { script, temporaryFolder } from "./workshop.ts";

const MACHINE = "root/lib/x86_64-linux-gnu";

function offering(versions: Record<string, string>): {
  unpacked: string[];
  closure: () => Promise<Package[]>;
  unpack: (packages: readonly Package[], root: string) => Promise<void>;
} {
  const unpacked: string[] = [];
  return {
    unpacked,
    closure: async () => Object.entries(versions).map(([name, version]) => ({ name, version })),
    unpack: async (packages, root) => {
      unpacked.push(...packages.map(({ name }) => name));
      await script(join(root, "..", MACHINE, "ld-linux-x86-64.so.2"), "");
      await script(join(root, "usr/bin/redis-server"), "");
    },
  };
}

test("the product and its libraries are unpacked, what only installs a system is not", async () => {
  const archive = offering({
    libc6: "2.36-9",
    "libgcc-s1": "12.2.0-14",
    dpkg: "1.21.23",
    "libperl5.36": "5.36.0-7",
    "libpam-modules": "1.5.2-6",
    adduser: "3.134",
    zlib1g: "1:1.2.13",
    "lua-cjson": "2.1.0",
    "redis-tools": "5:7.0.15-1~deb12u10",
    "redis-server": "5:7.0.15-1~deb12u10",
  });
  const folder = join(await temporaryFolder(), "redis");
  await mkdir(folder);
  const notes: string[] = [];
  const label = await makeBundle("redis", folder, { archive, note: (each) => notes.push(each) });
  const taken = ["libc6", "libgcc-s1", "zlib1g", "lua-cjson", "redis-tools", "redis-server"];
  expect(archive.unpacked).toEqual(taken);
  expect(label).toMatchObject({ product: "redis", version: "7.0.15" });
  expect(Object.keys(label.packages)).toEqual(taken);
  expect(notes).toEqual(["Downloading Redis 7.0.15 and its dependencies (6 packages)"]);
});

test("a package that is too old is refused before anything is downloaded", async () => {
  const archive = offering({ "redis-server": "5:6.0.16-1+deb11u2" });
  const making = makeBundle("redis", await temporaryFolder(), { archive, note: () => {} });
  await expect(making).rejects.toThrow("the apt sources have Redis 6.0.16 and 6.2 is needed");
  expect(archive.unpacked).toEqual([]);
});
