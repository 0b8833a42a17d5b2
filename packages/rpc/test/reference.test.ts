import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as errors from "../src/errors.ts";
import { METRICS } from "../src/internal.ts";
import { clientTable, serverTable } from "../src/options.ts";

const read = (name: string) =>
  readFileSync(new URL(`../../../docs/${name}`, import.meta.url), "utf8");

test("the reference lists every error and every number", () => {
  const section =
    read("reference/errors.md")
      .split(/^## /m)
      .find((part) => part.startsWith("rpc\n")) ?? "";
  const documented = [...section.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map((row) => row[2]);
  const thrown = Object.keys(errors).filter((name) => /^[A-Z].*Error$/.test(name));
  expect(documented.sort()).toEqual(thrown.sort());
  for (const [word, number] of Object.entries(errors.RPC_CODES)) {
    expect(section).toContain(`\`${word}\` ${number}`);
  }
});

test("the reference lists every metric with its meaning", () => {
  const page = read("reference/metrics.md");
  for (const [name, meaning] of Object.entries(METRICS)) {
    expect(page).toContain(`| \`${name}\` | ${meaning} |`);
  }
});

test("the guide lists every option with its default", () => {
  const guide = read("guides/rpc.md");
  for (const table of [clientTable, serverTable]) {
    for (const [name, spec] of Object.entries(table)) {
      if (name === "plainPop") continue; // for our own tests
      const shown = spec.default === undefined ? "none" : `\`${JSON.stringify(spec.default)}\``;
      expect(guide, name).toContain(`| \`${name}\` | ${shown} |`);
    }
  }
});
