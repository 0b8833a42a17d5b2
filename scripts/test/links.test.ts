import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { brokenLinks } from "../docs/links.mjs";

test("every link inside the documentation leads somewhere", () => {
  expect(brokenLinks(fileURLToPath(new URL("../..", import.meta.url)))).toEqual([]);
});
