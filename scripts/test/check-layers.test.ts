import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const script = fileURLToPath(new URL("../check-layers.mjs", import.meta.url));

/** Writes the files into a fresh tree and runs the check on it. */
function check(files: Record<string, string>): { status: number | null; output: string } {
  const root = mkdtempSync(join(tmpdir(), "ropeway-layers-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, root], {
    encoding: "utf8",
  });
  return { status, output: stdout + stderr };
}

const tree = {
  "packages/core/package.json": "{}",
  "packages/core/src/index.ts": "export {};",
  "packages/jobs/package.json": '{"dependencies":{"@ropeway/core":"0.1.0"}}',
  "packages/jobs/src/index.ts": 'import { connect } from "@ropeway/core";',
};

test("imports that point down pass", () => {
  expect(check(tree)).toEqual({
    status: 0,
    output: "layers: every import points down, and only stores send commands\n",
  });
});

test.each([
  ["an import upwards", "packages/core/src/index.ts", 'import { add } from "@ropeway/jobs";'],
  ["a dynamic import upwards", "packages/core/src/index.ts", 'await import("@ropeway/jobs");'],
  ["a re-export of a sub-path upwards", "packages/core/src/a.ts", 'export { a } from "ropeway/a";'],
  ["an import of a sibling", "packages/jobs/src/a.ts", 'import type { A } from "@ropeway/rpc";'],
  ["a dependency upwards", "packages/core/package.json", '{"dependencies":{"@ropeway/jobs":"1"}}'],
  ["a path out of the package", "packages/jobs/src/a.ts", 'import "../../core/src/index.ts";'],
  ["a package without a layer", "packages/attic/package.json", "{}"],
])("%s fails and names the file", (_, path, content) => {
  const { status, output } = check({ ...tree, [path]: content });
  expect(status).toBe(1);
  expect(output).toContain(path.startsWith("packages/attic") ? "packages/attic" : path);
  expect(output).toContain("1 layer fault(s)");
});

test.each([
  ["on a Redis", "packages/kit/src/lock.ts", 'await this.#redis.send(["GET", key]);'],
  ["by a script", "packages/kit/src/lock.ts", "await redis.run(script, keys, args);"],
  ["through a method of the store", "packages/kit/src/lock.ts", 'store.send("GET", key);'],
  ["with a type", "packages/cli/src/a.ts", 'const [now] = await master.send<string[]>(["TIME"]);'],
])("a command sent %s outside the store fails and names the line", (_, path, content) => {
  const files = { "packages/kit/package.json": "{}", "packages/cli/package.json": "{}" };
  const { status, output } = check({ ...tree, ...files, [path]: `// redis.send(\n${content}` });
  expect(status).toBe(1);
  expect(output).toBe(`${path}:2: only store.ts or store/ may send commands\n1 layer fault(s)\n`);
});

test("commands in a store and similar calls elsewhere pass", () => {
  const files = {
    "packages/kit/package.json": "{}",
    "packages/kit/src/store.ts": 'redis.send(["GET", key]);',
    "packages/kit/src/store/lists.ts": 'redis.send(["GET", key]);',
    "packages/kit/src/a.ts": "reply.send({}); stream.send(event); guard.run(route);",
  };
  expect(check({ ...tree, ...files }).status).toBe(0);
});
