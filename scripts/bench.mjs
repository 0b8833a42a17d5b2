// `npm run bench -- <name>`: builds the bench workspace with what it measures, then runs it. The
// build is what users run; a loader that strips types on the fly would cost extra (bench/README.md).
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

function run(...args) {
  const { status, signal } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  return signal === null ? status : 1;
}

// A package with a run of its own has no peers to compare with: packages/<name>/bench/main.ts.
const [name = "", ...options] = process.argv.slice(2);
const own = join(root, "packages", name, "bench", "main.ts");
if (/^[a-z]+$/.test(name) && existsSync(own)) {
  process.exit(run("--conditions=@ropeway/source", "--import", "tsx", own, ...options));
}

const built = run(join(root, "node_modules", "typescript", "bin", "tsc"), "-b", "bench");
process.exit(built === 0 ? run("bench/dist/main.js", ...process.argv.slice(2)) : built);
