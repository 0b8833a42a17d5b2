import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as errors from "../src/errors.ts";
import { resolveSyncOptions } from "../src/options.ts";

const read = (name: string) =>
  readFileSync(new URL(`../../../docs/reference/${name}`, import.meta.url), "utf8");

test("the reference lists every option", () => {
  const page = read("sync.md");
  for (const name of Object.keys(resolveSyncOptions({ from: "redis://a", to: "redis://b" }))) {
    expect(page, name).toMatch(new RegExp(`^\\| \`${name}\` \\|`, "m"));
  }
});

test("the reference lists every error with its code", () => {
  const section = read("errors.md")
    .split(/^## /m)
    .find((part) => part.startsWith("sync\n"));
  const documented = [...(section ?? "").matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map(
    (row) => row[2],
  );
  const thrown = Object.keys(errors).filter((name) => name.endsWith("Error"));
  expect(documented.sort()).toEqual(thrown.sort());
});
