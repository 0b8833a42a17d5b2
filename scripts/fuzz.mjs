// `npm run fuzz -- <part> [--minutes N] [--seed N]`: runs packages/<part>/fuzz/main.ts, which feeds broken
// input to the readers of a part for N minutes of CPU time. Exits with 1 at the first input that breaks a
// rule. The printed seed repeats the run.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const fileOf = (part) => join(root, "packages", part, "fuzz", "main.ts");
const parts = readdirSync(join(root, "packages")).filter((part) => existsSync(fileOf(part)));
const [part = "", ...rest] = process.argv.slice(2);
// "rdb" is an alias of "sync".
const folder = part === "rdb" ? "sync" : part;
if (!parts.includes(folder)) {
  console.error(
    `usage: npm run fuzz -- <part> [--minutes N] [--seed N]; parts: ${parts.join(", ")}`,
  );
  process.exit(2);
}
const node = ["--conditions=@ropeway/source", "--import", "tsx", fileOf(folder), ...rest];
const { status } = spawnSync(process.execPath, node, { cwd: root, stdio: "inherit" });
process.exit(status ?? 1);
