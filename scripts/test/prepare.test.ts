// Tests the scripts that run before anything is installed, in a small clone whose only dependency is one
// of its folders, with a `tsc` that compiles nothing. npm is real.
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const scripts = fileURLToPath(new URL("..", import.meta.url));
const INSTALLING = "Installing the dependencies (npm ci)\n";
const BUILDING = "Building (tsc -b)\n";

class Clone {
  readonly root: string = mkdtempSync(join(tmpdir(), "ropeway-clone-"));
  readonly dependencies = { typescript: "file:tools/typescript" };
  readonly tool = { name: "typescript", version: "7.0.0", bin: { tsc: "tsc.mjs" } };

  constructor() {
    onTestFinished(() => rmSync(this.root, { recursive: true, force: true }));
    for (const file of ["prepare.mjs", "start.mjs"]) {
      cpSync(join(scripts, file), join(this.root, "scripts", file));
    }
    const { dependencies } = this;
    this.write("package.json", { name: "tiny", engines: { node: ">=20.19" }, dependencies });
    this.write("tools/typescript/package.json", this.tool);
    this.write("tools/typescript/tsc.mjs", "#!/usr/bin/env node\n");
    this.lock(this.tool.version);
    this.write(
      "packages/cli/dist/main.js",
      'console.log(JSON.stringify(process.argv.slice(2)));\nprocess.on("SIGTERM", () => process.exit(7));\nprocess.kill(process.pid, "SIGTERM");\nsetInterval(() => {}, 1e9);\n',
    );
    this.write("packages/cli/package.json", { type: "module" });
  }

  write(path: string, content: string | object): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true });
    const text = typeof content === "string" ? content : JSON.stringify(content);
    writeFileSync(join(this.root, path), text, { mode: 0o755 });
  }

  /** Writes the lock file, for a version of the tool. */
  lock(version: string): void {
    this.write("package-lock.json", {
      name: "tiny",
      lockfileVersion: 3,
      packages: {
        "": { name: "tiny", dependencies: this.dependencies },
        "node_modules/typescript": { resolved: "tools/typescript", link: true },
        "tools/typescript": { ...this.tool, version },
      },
    });
  }

  node(...args: string[]): { status: number | null; stdout: string; stderr: string } {
    const env = { ...process.env, npm_config_offline: "true", npm_config_loglevel: "error" };
    return spawnSync(process.execPath, args, { cwd: tmpdir(), env, encoding: "utf8" });
  }

  run(script: string, ...args: string[]): ReturnType<Clone["node"]> {
    return this.node(join(this.root, "scripts", script), ...args);
  }
}

test("dependencies are installed when they are missing or differ from the lock file", () => {
  const clone = new Clone();
  expect(clone.run("prepare.mjs")).toMatchObject({ status: 0, stderr: INSTALLING + BUILDING });
  expect(existsSync(join(clone.root, "node_modules/.bin/tsc"))).toBe(true);
  expect(clone.run("prepare.mjs").stderr).toBe(BUILDING);

  // A checkout changes the times of all files.
  const later = new Date(Date.now() + 60_000);
  utimesSync(join(clone.root, "package-lock.json"), later, later);
  expect(clone.run("prepare.mjs").stderr).toBe(BUILDING);

  clone.write("tools/typescript/package.json", { ...clone.tool, version: "7.0.1" });
  clone.lock("7.0.1");
  expect(clone.run("prepare.mjs").stderr).toBe(INSTALLING + BUILDING);
  expect(clone.run("prepare.mjs").stderr).toBe(BUILDING);
});

test("an interrupted install is repeated", () => {
  const clone = new Clone();
  clone.run("prepare.mjs");
  clone.write("node_modules/.package-lock.json", '{"packages":');
  expect(clone.run("prepare.mjs").stderr).toBe(INSTALLING + BUILDING);
  clone.write("node_modules/.package-lock.json", { packages: {} });
  expect(clone.run("prepare.mjs").stderr).toBe(INSTALLING + BUILDING);
});

test("an install that fails shows npm's last lines and one sentence", () => {
  const clone = new Clone();
  const manifest = JSON.parse(readFileSync(join(clone.root, "package.json"), "utf8"));
  clone.write("package.json", { ...manifest, dependencies: { typescript: "file:elsewhere" } });
  const { status, stderr } = clone.run("prepare.mjs");
  expect(status).toBe(1);
  expect(stderr).toContain("npm error");
  expect(stderr).toMatch(/Installing the dependencies \(npm ci\) failed: see the lines above.*\n$/);
  expect(stderr).not.toContain("    at ");
});

test("a build that fails shows the compiler's output and one sentence", () => {
  const clone = new Clone();
  clone.write(
    "tools/typescript/tsc.mjs",
    "#!/usr/bin/env node\nconsole.log('a.ts(1,1): error TS1005');\nprocess.exit(2);\n",
  );
  const { status, stderr } = clone.run("prepare.mjs");
  expect(status).toBe(1);
  expect(stderr).toMatch(/a\.ts\(1,1\): error TS1005\nBuilding \(tsc -b\) failed: .*\n$/);
});

test("start runs `up` with the same arguments in the same process, which gets signals and sets the exit code", () => {
  const clone = new Clone();
  const { status, stdout } = clone.run("start.mjs", "--port", "0");
  expect(stdout).toBe('["up","--port","0"]\n');
  expect(status).toBe(7);
});

test.each(["18.20.4", "20.18.3"])("Node %s is refused with one sentence", (version) => {
  const clone = new Clone();
  const pretend = `data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"${version}"}})`;
  const script = join(clone.root, "scripts", "start.mjs");
  expect(clone.node("--import", pretend, script)).toEqual(
    expect.objectContaining({
      status: 1,
      stdout: "",
      stderr: `Ropeway needs Node 20.19 or newer and this is Node ${version}: install a newer one from https://nodejs.org and try again.\n`,
    }),
  );
  expect(existsSync(join(clone.root, "node_modules"))).toBe(false);
});
