import { readFileSync } from "node:fs";
import { type BackoffOptions, backoffDelay } from "@ropeway/core";
import { expect, test } from "vitest";
import { deliveryOptions } from "../src/delivery.ts";
import { dispatcherOptions } from "../src/dispatcher-options.ts";
import * as errors from "../src/errors.ts";
import { MergeKeys } from "../src/keys.ts";
import { INSTRUMENTS } from "../src/metrics.ts";
import { queueOptions } from "../src/options.ts";

const defaultsOf = (table: Readonly<Record<string, { default: unknown }>>) =>
  Object.fromEntries(Object.entries(table).map(([name, spec]) => [name, spec.default]));
const read = (name: string) =>
  readFileSync(new URL(`../../../docs/${name}`, import.meta.url), "utf8");

test("the reference lists every error with its code", () => {
  const section = read("reference/errors.md")
    .split(/^## /m)
    .find((part) => part.startsWith("merge\n"));
  const documented = [...(section ?? "").matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map(
    (row) => row[2],
  );
  expect(documented.sort()).toEqual(Object.keys(errors).sort());
});

test("the reference lists every metric with its meaning", () => {
  const page = read("reference/metrics.md");
  for (const [name, meaning] of Object.values(INSTRUMENTS)) {
    expect(page).toMatch(new RegExp(`^\\| \`${name}\` \\|.*\\| ${meaning} \\|$`, "m"));
  }
});

test("the guide lists every option with its default", () => {
  const guide = read("guides/merge.md");
  for (const table of [queueOptions, dispatcherOptions, deliveryOptions]) {
    for (const [name, spec] of Object.entries(table)) {
      const shown =
        spec.default === undefined ? "the system's" : `\`${JSON.stringify(spec.default)}\``;
      expect(guide, name).toContain(`| \`${name}\` | ${shown} |`);
    }
  }
});

test("twelve attempts take about a day, as the guide says", () => {
  const { retry, maxAttempts } = { ...defaultsOf(dispatcherOptions) };
  const pauses = Array.from({ length: Number(maxAttempts) - 1 }, (_, i) =>
    backoffDelay(i + 1, retry as BackoffOptions),
  );
  const hours = pauses.reduce((sum, ms) => sum + ms, 0) / 3_600_000;
  expect(maxAttempts).toBe(12);
  expect(hours).toBeGreaterThan(16);
  expect(hours).toBeLessThan(30);
  expect(pauses[0]).toBeLessThanOrEqual(6_000);
});

test("the wire page lists every key", () => {
  const page = read("reference/wire/merge.md");
  const keys = new MergeKeys("p");
  const all = [
    keys.channel,
    keys.paused,
    keys.pausedKeys,
    keys.broken,
    keys.endpoints,
    keys.endpoint("URL"),
    keys.breaker("ORIGIN"),
    keys.idempotency("K", "KEY"),
    ...keys.unit("K"),
    ...keys.letter("ID", "K"),
  ];
  for (const key of all) expect(page, key).toContain(`| \`${key}\` |`);
});
