// What `npm start`, `npm test` and CI need before anything else: a Node that is new enough, the
// dependencies, the build. Runs before node_modules exists, so it imports nothing but Node, and on
// any Node, so it keeps to old syntax until the version is checked.
//
// Says on stderr what takes time; stdout belongs to the program that follows. Each failure ends the
// process with the tool's last words and one sentence of ours.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..");

const TAIL_LINES = 20;

/** Leaves the workspace installed and built, and the process in its root. */
export async function prepare() {
  process.chdir(root);
  checkNode();
  if (installIsDue()) {
    await step("Installing the dependencies (npm ci)", npm(["ci", "--no-audit", "--no-fund"]));
  }
  await step("Building (tsc -b)", [join("node_modules", ".bin", "tsc"), "-b"]);
}

/** Ends the process with one sentence for a person. */
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
 * Whether something of the lock file is missing or another version. npm writes its list of what is
 * installed last, so an install that was cut short is due again. Times of files say nothing: git gives
 * every file that it checks out the time of the checkout.
 */
export function installIsDue(folder = ".") {
  const installed = packagesOf(join(folder, "node_modules", ".package-lock.json"));
  const wanted = packagesOf(join(folder, "package-lock.json"));
  if (installed === undefined || wanted === undefined) return true;
  return Object.entries(wanted).some(([path, { version, integrity, optional }]) => {
    const found = installed[path];
    // The list has neither the workspaces' own folders nor what this platform cannot use.
    if (found === undefined) return path.includes("node_modules/") && !optional;
    return found.version !== version || found.integrity !== integrity;
  });
}

function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8")).packages;
  } catch {
    return undefined; // not installed, or not whole
  }
}

/** The npm that runs us, if one does, else the one on PATH. */
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
  fail(
    `${tail}\n${title} failed: see the lines above, and run this command again when it is put right.`,
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await prepare();
