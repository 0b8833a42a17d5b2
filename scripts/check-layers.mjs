// Fails when a package reaches up or sideways: the table below is the whole law of imports.
//
//   core   <-  rpc | jobs | merge | kit | sync  <-  cluster  <-  portal  <-  cli
//   provide (server programs) stands alone beside core; testkit may be used by tests only.
//
// Both doors are watched: what package.json declares and what the sources really import.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const SYSTEMS = ["rpc", "jobs", "merge", "kit", "sync"];
const BELOW = {
  core: [],
  provide: [],
  ...Object.fromEntries(SYSTEMS.map((name) => [name, ["core"]])),
  cluster: ["core", ...SYSTEMS],
  portal: ["core", ...SYSTEMS, "cluster"],
  cli: ["core", "provide", ...SYSTEMS, "cluster", "portal"],
  dashboard: ["portal"],
  testkit: ["core", "provide"],
};
// Packages whose folder and npm name differ.
const FOLDER_OF = { ropeway: "cli" };

const root = resolve(process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), ".."));
const faults = [];

for (const folder of readdirSync(join(root, "packages"))) {
  const below = BELOW[folder];
  if (below === undefined) {
    faults.push(`packages/${folder} has no layer: add it to scripts/check-layers.mjs`);
    continue;
  }
  const home = join(root, "packages", folder);
  if (!existsSync(join(home, "package.json"))) continue;
  const { dependencies = {} } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  for (const name of Object.keys(dependencies)) {
    complain(folder, name, `packages/${folder}/package.json`);
  }
  for (const file of sources(join(home, "src"))) {
    for (const name of importsOf(readFileSync(file, "utf8"))) {
      if (name.startsWith(".") && relative(home, resolve(dirname(file), name)).startsWith("..")) {
        faults.push(`${relative(root, file)}: ${name} leaves its package`);
      }
      complain(folder, name, relative(root, file));
    }
  }
}

function complain(folder, specifier, where) {
  const target = ownPackage(specifier);
  if (target === undefined || target === folder || BELOW[folder].includes(target)) return;
  faults.push(
    `${where}: ${folder} must not import ${target} (allowed: ${BELOW[folder].join(", ") || "nothing of ours"})`,
  );
}

function ownPackage(specifier) {
  const [scope, name] = specifier.split("/");
  return scope === "@ropeway" ? name : FOLDER_OF[scope];
}

function importsOf(source) {
  const pattern = /(?:\bfrom\s*|\bimport\s*\(?\s*)["']([^"']+)["']/g;
  return [...source.matchAll(pattern)].map((match) => match[1]);
}

function sources(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name));
}

if (faults.length > 0) {
  process.stderr.write(`${faults.join("\n")}\n${faults.length} layer fault(s)\n`);
  process.exit(1);
}
process.stdout.write("layers: every import points down\n");
