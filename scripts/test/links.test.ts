import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { brokenLinks } from "../docs/links.mjs";

test("the documentation has no broken links", () => {
  expect(brokenLinks(fileURLToPath(new URL("../..", import.meta.url)))).toEqual([]);
});
