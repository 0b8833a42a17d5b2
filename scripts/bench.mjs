// `npm run bench -- <name>`: builds the bench workspace with what it measures, then runs it. The
// build is what users run; a loader that strips types on the fly would cost extra (bench/README.md).
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

function run(...args) {
  const { status, signal } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  return signal === null ? status : 1;
}

const built = run(join(root, "node_modules", "typescript", "bin", "tsc"), "-b", "bench");
process.exit(built === 0 ? run("bench/dist/main.js", ...process.argv.slice(2)) : built);
