import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as errors from "../src/errors.ts";
import { queueKeys } from "../src/keys.ts";
import { METRICS } from "../src/metrics.ts";
import { resolveWorkerOptions } from "../src/options.ts";

const read = (name: string) =>
  readFileSync(new URL(`../../../docs/${name}`, import.meta.url), "utf8");

test("the reference lists every error with its code", () => {
  const section = read("reference/errors.md")
    .split(/^## /m)
    .find((part) => part.startsWith("jobs\n"));
  const documented = [...(section ?? "").matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map(
    (row) => row[2],
  );
  const thrown = Object.keys(errors).filter((name) => name.endsWith("Error"));
  expect(documented.sort()).toEqual(thrown.sort());
  for (const name of thrown) expect(section).toContain(`\`${name}\``);
});

test("the reference lists every metric with its meaning", () => {
  const page = read("reference/metrics.md");
  for (const [name, type, attributes, meaning] of METRICS) {
    const shown = attributes.map((attribute) => `\`${attribute}\``).join(", ");
    expect(page).toContain(`| \`${name}\` | ${type} | ${shown} | ${meaning} |`);
  }
});

test("the wire lists every key and channel, in the order of the scripts", () => {
  const page = read("reference/wire/jobs.md");
  const documented = [
    ...page.matchAll(/^\| `(\w+)` \| (?:hash|list|zset|set|stream|channel) \|/gm),
  ];
  const { all, hot: _, adding: __, ...keys } = queueKeys("p", "q");
  expect(documented.map((row) => row[1])).toEqual(Object.keys(keys));
  expect(all).toEqual(Object.values(keys).slice(0, all.length));
});

test("the guide lists every option of a worker with its default", () => {
  const guide = read("guides/jobs.md");
  for (const [name, value] of Object.entries(resolveWorkerOptions({}))) {
    const free = value === undefined || value === "";
    const shown = free ? "[^`|]+" : `\`${JSON.stringify(value)}\``;
    const escaped = free ? shown : shown.replace(/[{}"[\]]/g, "\\$&");
    expect(guide, name).toMatch(new RegExp(`^\\| \`${name}\` \\| ${escaped} \\|`, "m"));
  }
});
