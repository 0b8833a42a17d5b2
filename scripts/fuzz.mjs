// `npm run fuzz -- <part> [--minutes N] [--seed N]`: feeds broken input to the readers of a part,
// packages/<part>/fuzz/main.ts, for so much processor time. Ends with 1 at the first input that breaks a
// rule; the seed it prints repeats it.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const fileOf = (part) => join(root, "packages", part, "fuzz", "main.ts");
const parts = readdirSync(join(root, "packages")).filter((part) => existsSync(fileOf(part)));
const [part = "", ...rest] = process.argv.slice(2);
// "rdb" is what people call it.
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
