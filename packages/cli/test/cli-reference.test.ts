import { expect, test } from "vitest";
import { cliReference } from "../src/cli-reference.ts";
import { createProgram } from "../src/program.ts";

test("docs/reference/cli.md is in step with the commands (update with vitest -u)", async () => {
  await expect(cliReference(createProgram())).toMatchFileSnapshot("../../../docs/reference/cli.md");
});
