// `npm run bench -- <name>`: builds the bench workspace and its dependencies, then runs the bench. It
// measures the build, because a loader that strips types at run time costs extra (bench/README.md).
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

function run(...args) {
  const { status, signal } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  return signal === null ? status : 1;
}

// Packages without peers to compare with have their own bench in packages/<name>/bench/main.ts.
const [name = "", ...options] = process.argv.slice(2);
const own = join(root, "packages", name, "bench", "main.ts");
if (/^[a-z]+$/.test(name) && existsSync(own)) {
  process.exit(run("--conditions=@ropeway/source", "--import", "tsx", own, ...options));
}

const built = run(join(root, "node_modules", "typescript", "bin", "tsc"), "-b", "bench");
process.exit(built === 0 ? run("bench/dist/main.js", ...process.argv.slice(2)) : built);
