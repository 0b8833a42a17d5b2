// `npm run chaos -- <part> ...`: runs packages/<part>/chaos/main.ts of each named part in turn, or of all
// parts if none is named. Each run prints its INVARIANT lines.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const fileOf = (part) => join(root, "packages", part, "chaos", "main.ts");
const parts = readdirSync(join(root, "packages")).filter((part) => existsSync(fileOf(part)));
const asked = process.argv.slice(2);
const unknown = asked.filter((part) => !parts.includes(part));
if (unknown.length > 0) {
  console.error(`no chaos run for ${unknown.join(", ")}; available: ${parts.join(", ")}`);
  process.exit(2);
}

let failed = false;
for (const part of asked.length > 0 ? asked : parts) {
  const node = ["--conditions=@ropeway/source", "--import", "tsx", fileOf(part)];
  const { status } = spawnSync(process.execPath, node, { cwd: root, stdio: "inherit" });
  failed ||= status !== 0;
}
process.exit(failed ? 1 : 0);
