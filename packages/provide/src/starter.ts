// The scripts in a bundle's bin/, which start its programs with the bundle's own libraries:
//
//   loader "packaged"   exec ../root/…/ld-linux-x86-64.so.2 --library-path … ../root/usr/bin/redis-server "$@"
//   loader "system"     LD_LIBRARY_PATH=… exec ../root/usr/lib/chromium/chromium "$@"
//
// A script finds everything relative to itself, so a bundle may be moved. It uses only the
// shell, so PATH may be empty. `exec` keeps the process id, so a signal reaches the program itself.
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { StepFailedError } from "./errors.ts";
import type { Product } from "./program.ts";

/** The libraries of a bundle; paths are relative to the bundle. */
export interface Libraries {
  /** Every folder that holds shared libraries. */
  readonly folders: readonly string[];
  /** The C library's dynamic loader, if the bundle has it. */
  readonly loader: string | undefined;
}

/** The bundle's fonts, then the machine's. Without fonts, a browser draws no text. */
export const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">root/usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
`;

/** Finds the libraries of a bundle, in the folders named after the machine (x86_64-linux-gnu, aarch64-linux-gnu). */
export async function librariesOf(bundle: string): Promise<Libraries> {
  const folders: string[] = [];
  let loader: string | undefined;
  for (const place of ["root/lib", "root/usr/lib"]) {
    for (const machine of (await namesIn(bundle, place)).filter((name) => /-linux-/.test(name))) {
      const folder = `${place}/${machine}`;
      const names = await namesIn(bundle, folder);
      const found = names.find((name) => /^ld(?:-linux.*|64)\.so\.\d+$/.test(name));
      loader ??= found && `${folder}/${found}`;
      // Some packages have private libraries one folder deeper.
      for (const each of [folder, ...names.map((name) => `${folder}/${name}`)]) {
        if ((await namesIn(bundle, each)).some((name) => /^lib.+\.so/.test(name))) {
          folders.push(each);
        }
      }
    }
  }
  return { folders, loader };
}

/** Absolute, because a program may change its folder, and its child processes inherit these paths. */
const HEAD = `#!/bin/sh
case $0 in /*) here=\${0%/*}/.. ;; *) here=$PWD/\${0%/*}/.. ;; esac`;

/** The content of a script that starts an executable of the bundle. */
export function starter(
  executable: string,
  { loader: kind, environment }: Pick<Product, "loader" | "environment">,
  { folders, loader }: Libraries,
): string {
  const path = folders.map((folder) => `$here/${folder}`).join(":");
  const variables = kind === "system" ? { LD_LIBRARY_PATH: path, ...environment } : environment;
  const exports = Object.entries(variables).map(([name, value]) => `export ${name}="${value}"`);
  if (kind === "packaged" && loader === undefined) {
    throw new StepFailedError("the packages brought no dynamic loader");
  }
  const prefix = kind === "packaged" ? `"$here/${loader}" --library-path "${path}" ` : "";
  return [HEAD, ...exports, `exec ${prefix}"$here/${executable}" "$@"`, ""].join("\n");
}

async function namesIn(bundle: string, folder: string): Promise<readonly string[]> {
  return readdir(join(bundle, folder)).catch(() => []);
}
