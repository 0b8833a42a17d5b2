import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { librariesOf, starter } from "../src/starter.ts";
import { runTool } from "../src/tool.ts";
import { script, temporaryFolder } from "./workshop.ts";

/** Empty files by path, in a fresh folder. */
async function bundleOf(...paths: string[]): Promise<string> {
  const bundle = join(await temporaryFolder(), "bundle");
  for (const path of paths) {
    await mkdir(join(bundle, path, ".."), { recursive: true });
    await writeFile(join(bundle, path), "");
  }
  return bundle;
}

test.each([
  ["root/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "amd64, as in Debian 12"],
  ["root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "amd64, as in Debian 13"],
  ["root/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1", "arm64"],
  ["root/lib/powerpc64le-linux-gnu/ld64.so.2", "ppc64el"],
])("the loader is found at %s (%s)", async (path) => {
  const bundle = await bundleOf(path, join(path, "../libc.so.6"), "root/usr/lib/other/libx.so.1");
  expect(await librariesOf(bundle)).toEqual({ loader: path, folders: [join(path, "..")] });
});

test("private libraries one folder deeper are found, plugins are not libraries", async () => {
  const folder = "root/usr/lib/x86_64-linux-gnu";
  const bundle = await bundleOf(
    `${folder}/libpulse.so.0`,
    `${folder}/pulseaudio/libpulsecommon-16.1.so`,
    `${folder}/engines-3/padlock.so`,
  );
  expect(await librariesOf(bundle)).toEqual({
    loader: undefined,
    folders: [folder, `${folder}/pulseaudio`],
  });
});

test("a starter works wherever its bundle is moved, with an empty PATH, called by any path", async () => {
  const folder = await temporaryFolder();
  const libraries = { loader: "root/loader", folders: ["root/a", "root/b"] };
  await script(join(folder, "first/root/loader"), 'printf "[%s]" "$@"');
  const packaged = { loader: "packaged", environment: {} } as const;
  await script(join(folder, "first/bin/etcd"), starter("root/usr/bin/etcd", packaged, libraries));
  await rename(join(folder, "first"), join(folder, "moved here"));
  for (const [path, here] of [
    [`${folder}/moved here/bin/etcd`, `${folder}/moved here/bin/..`],
    ["moved here/bin/etcd", `${folder}/moved here/bin/..`],
    ["./moved here/bin/etcd", `${folder}/./moved here/bin/..`],
  ] as const) {
    const { stdout } = await runTool([path, "a b", "*"], {
      signal: AbortSignal.timeout(5_000),
      env: { PATH: "", PWD: folder },
      cwd: folder,
    });
    expect(stdout).toBe(
      `[--library-path][${here}/root/a:${here}/root/b][${here}/root/usr/bin/etcd][a b][*]`,
    );
  }
});

test("a program on the machine's loader gets its libraries and settings by environment", async () => {
  const bundle = join(await temporaryFolder(), "bundle");
  await script(join(bundle, "root/browser"), 'echo "$LD_LIBRARY_PATH $FONTCONFIG_FILE $1"');
  const kind = { loader: "system", environment: { FONTCONFIG_FILE: "$here/fonts.conf" } } as const;
  const libraries = { loader: undefined, folders: ["root/a", "root/b"] };
  const path = await script(join(bundle, "bin/browser"), starter("root/browser", kind, libraries));
  const { stdout } = await runTool([path, "page"], { signal: AbortSignal.timeout(5_000) });
  const here = `${bundle}/bin/..`;
  expect(stdout).toBe(`${here}/root/a:${here}/root/b ${here}/fonts.conf page\n`);
});

test("a bundle without a loader cannot start what needs its own", () => {
  const packaged = { loader: "packaged", environment: {} } as const;
  expect(() => starter("root/usr/bin/etcd", packaged, { loader: undefined, folders: [] })).toThrow(
    /no dynamic loader/,
  );
});
