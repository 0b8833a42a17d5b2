// Creates the project of a user: an empty folder outside the workspace, into which our packages are installed from
// the tarballs that would be published. Code that compiles and runs there also does so for users.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The folders of the published packages. */
export function publicPackages(root) {
  return readdirSync(join(root, "packages"))
    .map((name) => join(root, "packages", name))
    .filter((folder) => existsSync(join(folder, "package.json")))
    .filter((folder) => manifestOf(folder).private !== true);
}

/** The parsed package.json of a package. */
export function manifestOf(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/**
 * Packs every public package and installs the tarballs, and the packages named in `extra`, into `folder`.
 * Resolves to the stderr of npm, which contains engine warnings.
 */
export async function install(root, folder, extra = []) {
  const tarballs = join(folder, "tarballs");
  mkdirSync(tarballs, { recursive: true });
  const packages = publicPackages(root);
  await npm(["pack", "--silent", "--pack-destination", tarballs, ...packages], root);
  const files = readdirSync(tarballs).map((name) => join(tarballs, name));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
  const { stderr } = await npm(
    ["install", "--no-audit", "--no-fund", "--prefer-offline", ...files, ...extra],
    folder,
  );
  return stderr;
}

async function npm(args, cwd) {
  return run("npm", args, { cwd, maxBuffer: 64 * 1024 * 1024 });
}
