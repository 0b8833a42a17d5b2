import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import * as errors from "../src/errors.ts";
import { keys } from "../src/keys.ts";

const DOCS = new URL("../../../docs/reference/", import.meta.url);
const read = (page: string) => readFileSync(new URL(page, DOCS), "utf8");

it("docs/reference/errors.md lists every error of the cluster", () => {
  const section =
    read("errors.md")
      .split(/^## /m)
      .find((part) => part.startsWith("cluster\n")) ?? "";
  const documented = [...section.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map((row) => row[2]);
  expect(documented.sort()).toEqual(Object.keys(errors).sort());
});

it("docs/reference/store.md lists every path", () => {
  const page = read("store.md");
  for (const value of Object.values(keys)) {
    const path = typeof value === "string" ? value : value("{a}" as never, "{b}" as never);
    if (path.endsWith("/")) continue;
    const shape = path.replace(/\{\w\}/g, "{x}");
    const documented = [...page.matchAll(/^\| `(\/[^`]+)`/gm)].map(([, one = ""]) =>
      one.replace(/\{\w+\}/g, "{x}"),
    );
    expect(
      documented.some((one) => one === shape || one.replace("{x}", "{x}") === shape),
      path,
    ).toBe(true);
  }
});
