// Compiles every documented TypeScript block as a user would (strict, with the packed packages and the oldest
// and newest supported compilers), then runs it with a real Redis in REDIS_URL.
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { install } from "../docs/consumer.mjs";
import { blocks } from "../docs/pages.mjs";

/** The supported compilers, installed in the user's project because their programs have the same name. */
const COMPILERS = {
  "typescript-5.4": "~5.4.5",
  "typescript-5.9": "~5.9.3",
  "typescript-7": "^7.0.2",
};
/** A block that starts a server does not exit by itself. It passes if it runs this long without an error. */
const RUN_MS = 4_000;

const OPTIONS = {
  strict: true,
  target: "es2022",
  lib: ["es2023", "esnext.disposable"],
  module: "nodenext",
  skipLibCheck: true,
  types: ["node"],
  rootDir: "blocks",
  outDir: "out",
};

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "ropeway-docs-"));
const documented = blocks(root);
const typescript = documented
  .filter(({ language }) => language === "ts")
  .map((block) => ({ ...block, name: `${block.path.replace(/\W+/g, "-")}-${block.line}` }));

let warnings = "";

beforeAll(async () => {
  const compilers = Object.entries(COMPILERS).map(
    ([name, range]) => `${name}@npm:typescript@${range}`,
  );
  warnings = await install(root, folder, ["zod@^4", "@types/node@^20", ...compilers]);
  for (const { name, code } of typescript) {
    const file = join(folder, "blocks", `${name}.ts`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${code}\nexport {};\n`);
  }
  const config = { compilerOptions: OPTIONS, include: ["blocks"] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
}, 180_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("installing the packages prints no warning about Node's version or deprecated packages", () => {
  const ours = warnings.split("\n").filter((line) => /EBADENGINE|deprecated|peer/i.test(line));
  expect(ours).toEqual([]);
});

test("every code block names its language", () => {
  const nameless = documented.filter(({ language }) => language === "");
  expect(nameless.map(({ path, line }) => `${path}:${line}`)).toEqual([]);
});

describe.each(Object.keys(COMPILERS))("%s", (compiler) => {
  test("compiles every TypeScript block of the documentation", { timeout: 120_000 }, async () => {
    const tsc = join(folder, "node_modules", compiler, "bin", "tsc");
    const outcome = await promisify(execFile)(process.execPath, [tsc, "-p", folder], {
      cwd: folder,
    }).catch((error: { stdout: string }) => error);
    expect(outcome.stdout.trim()).toBe("");
  });
});

test("every TypeScript block of the documentation runs", { timeout: 300_000 }, async () => {
  await using server = await startRedis();
  await using source = await startRedis(); // for pages about moving data
  const failures: string[] = [];
  for (const { name } of typescript) {
    const fault = await faultOf(join(folder, "out", `${name}.js`), {
      REDIS_URL: server.url,
      SOURCE_URL: source.url,
    });
    if (fault !== undefined) failures.push(`${name}: ${fault}`);
  }
  expect(failures).toEqual([]);
});

/** Runs one compiled block. Returns its error output, or undefined. */
async function faultOf(
  file: string,
  servers: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const child = spawn(process.execPath, [file], {
    cwd: folder,
    env: { ...process.env, ...servers },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let complaint = "";
  child.stderr.on("data", (chunk) => {
    complaint += chunk;
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), RUN_MS);
  const [code, signal] = await new Promise<[number | null, string | null]>((ended) => {
    child.once("close", (code, signal) => ended([code, signal]));
  });
  clearTimeout(timer);
  if (complaint !== "") return complaint;
  return code === 0 || signal === "SIGKILL" ? undefined : `exit code ${code}`;
}
