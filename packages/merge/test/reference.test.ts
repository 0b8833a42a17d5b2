import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type RetryBackoff, retryDelayMs } from "../src/delivery/backoff.ts";
import { dispatcherOptions } from "../src/delivery/dispatcher-options.ts";
import { deliveryOptions } from "../src/delivery/http-dispatcher.ts";
import * as errors from "../src/errors.ts";
import { MergeKeys } from "../src/keys.ts";
import { INSTRUMENTS } from "../src/metrics.ts";
import { queueOptions } from "../src/queue/options.ts";

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
      const shown = spec.default === undefined ? "none" : `\`${JSON.stringify(spec.default)}\``;
      expect(guide, name).toContain(`| \`${name}\` | ${shown} |`);
    }
  }
});

test("twelve attempts take about a day, as the guide says", () => {
  const { backoff, attempts } = { ...defaultsOf(dispatcherOptions) };
  const pauses = Array.from({ length: Number(attempts) - 1 }, (_, i) =>
    retryDelayMs(i + 1, backoff as RetryBackoff),
  );
  const hours = pauses.reduce((sum, ms) => sum + ms, 0) / 3_600_000;
  expect(attempts).toBe(12);
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
    keys.active("URL"),
    keys.marked,
    keys.attempts,
    keys.breakers,
    keys.totals,
    keys.schedules,
    keys.schedule("ID"),
    keys.scheduleChannel,
    keys.deleted("K"),
    keys.idempotency("K", "KEY"),
    ...keys.unit("K"),
    ...keys.letter("ID", "K"),
  ];
  for (const key of all) expect(page, key).toContain(`| \`${key}\` |`);
});
