// Prepares `npm start`, `npm test` and CI: checks the version of Node, installs the dependencies and
// builds. It runs before node_modules exists, so it imports only Node's modules. It runs on any Node,
// so it uses old syntax until the version is checked.
//
// Progress goes to stderr, because stdout belongs to the program that follows. A failure ends the process
// with the last lines of the tool and one sentence.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..");

const TAIL_LINES = 20;

/** Installs and builds the workspace, and changes to its root. */
export async function prepare() {
  process.chdir(root);
  checkNode();
  if (installIsDue()) {
    await step("Installing the dependencies (npm ci)", npm(["ci", "--no-audit", "--no-fund"]));
  }
  await step("Building (tsc -b)", [join("node_modules", ".bin", "tsc"), "-b"]);
}

/** Prints one sentence and ends the process. */
export function fail(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}

function checkNode() {
  const { engines } = JSON.parse(readFileSync("package.json", "utf8"));
  const needed = engines.node.replace(/[^\d.]/g, "");
  const [have, want] = [process.versions.node, needed].map((text) => text.split(".").map(Number));
  if (have[0] > want[0] || (have[0] === want[0] && have[1] >= want[1])) return;
  fail(
    `Ropeway needs Node ${needed} or newer and this is Node ${process.versions.node}: install a newer one from https://nodejs.org and try again.`,
  );
}

/**
 * Whether a package of the lock file is missing or has another version. npm writes the list of installed
 * packages last, so an interrupted install is repeated. File times are not compared, because git sets
 * them at checkout.
 */
export function installIsDue(folder = ".") {
  const installed = packagesOf(join(folder, "node_modules", ".package-lock.json"));
  const wanted = packagesOf(join(folder, "package-lock.json"));
  if (installed === undefined || wanted === undefined) return true;
  return Object.entries(wanted).some(([path, { version, integrity, optional }]) => {
    const found = installed[path];
    // The list contains neither the workspaces' folders nor packages of other platforms.
    if (found === undefined) return path.includes("node_modules/") && !optional;
    return found.version !== version || found.integrity !== integrity;
  });
}

function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8")).packages;
  } catch {
    return undefined; // not installed, or incomplete
  }
}

/** The npm that runs this script, or else the one on PATH. */
function npm(args) {
  const path = process.env.npm_execpath || "";
  return basename(path).startsWith("npm") ? [process.execPath, path, ...args] : ["npm", ...args];
}

async function step(title, [file, ...args]) {
  process.stderr.write(`${title}\n`);
  const { code, output } = await new Promise((ended) => {
    const child = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
    const chunks = [];
    child.stdout.on("data", (chunk) => chunks.push(chunk));
    child.stderr.on("data", (chunk) => chunks.push(chunk));
    child.on("error", (error) => ended({ code: 1, output: error.message }));
    child.on("close", (code) => ended({ code, output: Buffer.concat(chunks).toString() }));
  });
  if (code === 0) return;
  const tail = output.trim().split("\n").slice(-TAIL_LINES).join("\n");
  fail(`${tail}\n${title} failed: see the lines above, fix the cause and run this command again.`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await prepare();
