import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { speak } from "./spoken.ts";

const shells = ["bash", "zsh", "fish"] as const;

function has(shell: string): boolean {
  return spawnSync(shell, ["-c", ":"]).status === 0;
}

/** What bash offers for the last word. */
async function complete(...words: string[]): Promise<string[]> {
  const { stdout: script } = await speak(["completion", "bash"]);
  const quoted = words.map((word) => `'${word}'`).join(" ");
  const ask = `${script}\nCOMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}; _ropeway; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { status, stdout, stderr } = spawnSync("bash", ["-c", ask], { encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout.split("\n").filter((line) => line !== "");
}

for (const shell of shells) {
  test.skipIf(!has(shell))(`the script for ${shell} is one that ${shell} understands`, async () => {
    const { stdout: script } = await speak(["completion", shell]);
    const { status, stderr } = spawnSync(shell, ["-n"], { input: script, encoding: "utf8" });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  });
}

test("bash completes nouns, verbs, options and the words of arguments", async () => {
  expect(await complete("ropeway", "doc")).toEqual(["doctor"]);
  expect(await complete("ropeway", "config", "ex")).toEqual(["example"]);
  expect(await complete("ropeway", "up", "--appendf")).toEqual(["--appendfsync"]);
  expect(await complete("ropeway", "--json", "completion", "")).toEqual(
    expect.arrayContaining(["bash", "zsh", "fish", "--json"]),
  );
});

test("bash completes the words that an option or setting may be", async () => {
  expect(await complete("ropeway", "merge", "push", "--update", "")).toEqual(["once", "always"]);
  expect(await complete("ropeway", "merge", "peek", "--method", "P")).toEqual([
    "POST",
    "PUT",
    "PATCH",
  ]);
  expect(await complete("ropeway", "jobs", "list", "mail", "--state", "f")).toEqual(["failed"]);
  expect(await complete("ropeway", "rpc", "call", "--dialect", "")).toEqual(["jsonrpc", "kw"]);
  expect(await complete("ropeway", "up", "--appendfsync", "")).toEqual(["always", "everysec"]);
  expect(await complete("ropeway", "portal", "--merge-serve", "t")).toEqual(["true"]);
});

test("after an option that takes a value, bash offers files or nothing, never commands", async () => {
  expect(await complete("ropeway", "up", "--config", "/et")).toEqual(["/etc"]);
  expect(await complete("ropeway", "up", "--port", "")).toEqual([]);
  expect(await complete("ropeway", "rpc", "call", "--session", "")).toEqual([]);
});
