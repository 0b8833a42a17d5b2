// A project of a user: an empty folder into which our packages are installed from the tarballs that would be
// published, with nothing of the workspace in reach. What compiles and runs here, compiles and runs for them.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The folders of the packages that are published. */
export function publicPackages(root) {
  return readdirSync(join(root, "packages"))
    .map((name) => join(root, "packages", name))
    .filter((folder) => existsSync(join(folder, "package.json")))
    .filter((folder) => manifestOf(folder).private !== true);
}

/** What a package's package.json says. */
export function manifestOf(folder) {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/**
 * Packs every public package and installs the tarballs, and `extra` packages by name, into `folder`.
 * Resolves with what npm printed to stderr, where engine warnings go.
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
