// Fails when a package imports upwards or sideways, or sends Redis commands outside its store.
//
//   core   <-  rpc | jobs | merge | kit | sync  <-  cluster  <-  portal  <-  cli
//   provide (server programs) has no dependencies of ours. Only tests may use testkit.
//
// Imports are checked in package.json and in the sources. Only `store.ts` and files in a folder `store/` may send
// commands, so that all commands of a package are in one place.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
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

// Packages that implement the core's Redis or have their own client.
const CLIENTS = ["core", "provide", "sync", "testkit"];
// Packages that still send commands outside a store. None at present.
const WITHOUT_STORE = [];
const SENDS = [
  // On an object whose name ends with redis, connection or store.
  /\b\w*(?:redis|connection|store)\.(?:send|run)\s*[<(]/gi,
  // A literal command, on an object of any name.
  /\.send\s*(?:<[^;()]*>)?\(\s*\[\s*"[A-Z]+"/g,
];

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
    const source = readFileSync(file, "utf8");
    if (mayNotSend(folder, file)) {
      for (const line of sendsIn(source)) {
        faults.push(`${relative(root, file)}:${line}: only store.ts or store/ may send commands`);
      }
    }
    for (const name of importsOf(source)) {
      if (name.startsWith(".") && relative(home, resolve(dirname(file), name)).startsWith("..")) {
        faults.push(`${relative(root, file)}: ${name} is outside its package`);
      }
      complain(folder, name, relative(root, file));
    }
  }
}

function mayNotSend(folder, file) {
  if (CLIENTS.includes(folder)) return false;
  // The folders of a package in the portal and the CLI follow the rule of that package.
  const parts = file.split(sep);
  const area = WITHOUT_STORE.find((name) => parts.includes(name));
  if (WITHOUT_STORE.includes(folder) || WITHOUT_STORE.includes(area)) return false;
  return !(parts.at(-1) === "store.ts" || parts.includes("store"));
}

/** The numbers of the lines that send a command. */
function sendsIn(source) {
  const code = source.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, (comment) =>
    comment.replace(/[^\n]/g, " "),
  );
  const starts = SENDS.flatMap((pattern) => [...code.matchAll(pattern)].map(({ index }) => index));
  const lines = starts.map((start) => code.slice(0, start).split("\n").length);
  return [...new Set(lines)].sort((a, b) => a - b);
}

function complain(folder, specifier, where) {
  const target = ownPackage(specifier);
  if (target === undefined || target === folder || BELOW[folder].includes(target)) return;
  faults.push(
    `${where}: ${folder} must not import ${target} (allowed: ${BELOW[folder].join(", ") || "no package of ours"})`,
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
process.stdout.write("layers: every import points down, and only stores send commands\n");
