import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { lowestVersion } from "../../src/dump/payload.ts";
import { rdbReaderOptions } from "../../src/rdb/options.ts";
import { knownVersion } from "../../src/rdb/shape.ts";

const page = readFileSync(
  new URL("../../../../docs/reference/wire/rdb.md", import.meta.url),
  "utf8",
);

test("the reference lists every reader option with its default", () => {
  for (const [name, spec] of Object.entries(rdbReaderOptions)) {
    expect(page).toContain(`| \`${name}\` | \`${spec.default}\` |`);
  }
});

test("the reference lists the version of every type that RESTORE takes", () => {
  const section = page.split("## RESTORE payloads")[1]?.split("\n## ")[0] ?? "";
  const documented = new Map<string, number>();
  for (const [, types = "", version] of section.matchAll(/^\| ([\d][^|]*) \| (\d+) \|$/gm)) {
    const family = types.includes("Valkey") ? "valkey" : "redis";
    for (const range of types.replace(/\(.*\)/, "").split(",")) {
      const [first = 0, last = first] = range.trim().split(" to ").map(Number);
      for (let type = first; type <= last; type++)
        documented.set(`${family} ${type}`, Number(version));
    }
  }
  for (let type = 0; type < 60; type++) {
    expect(documented.get(`redis ${type}`), `type ${type}`).toBe(lowestVersion("redis", type));
  }
  expect(documented.get("valkey 22")).toBe(lowestVersion("valkey", 22));
});

test("the versions are those of the reference", () => {
  const known = Array.from({ length: 120 }, (_, version) => version);
  expect(known.filter((version) => knownVersion("redis", version))).toEqual(known.slice(1, 16));
  expect(known.filter((version) => knownVersion("valkey", version))).toEqual([80]);
});
