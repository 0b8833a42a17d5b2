import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { ProgramUnavailableError } from "../src/index.ts";

test("the reference has the error with its code and class", async () => {
  const reference = await readFile(
    new URL("../../../docs/reference/errors.md", import.meta.url),
    "utf8",
  );
  const { code, name } = new ProgramUnavailableError({ program: "", reason: "", message: "" });
  expect(reference).toContain(`| \`${code}\` | \`${name}\` |`);
});
