import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { apiPages } from "../docs/api.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

describe("the API reference is in step with the declarations (update with npm run docs)", () => {
  test.each([...apiPages(root)])("%s", (path, text) => {
    expect(readFileSync(join(root, path), "utf8")).toBe(text);
  });
});
