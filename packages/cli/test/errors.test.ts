import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as errors from "../src/errors.ts";

test("the reference lists every error of the CLI", () => {
  const page = readFileSync(new URL("../../../docs/reference/errors.md", import.meta.url), "utf8");
  const section = page.split(/^## /m).find((part) => part.startsWith("cli\n")) ?? "";
  const documented = [...section.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map((row) => row[2]);
  const thrown = Object.keys(errors).filter((name) => name.endsWith("Error"));
  expect(documented.sort()).toEqual(thrown.sort());
});
