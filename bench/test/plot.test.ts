import { expect, test } from "vitest";
import { plot } from "../src/plot.ts";
import { resultsOf, standingOf } from "./sample-results.ts";

const RESULTS = resultsOf([
  standingOf('bare <client> & "friends"', "ceiling", [100, 100]),
  standingOf("ours", "ours", [50, 100]),
]);

/** Checks that the elements nest. Returns their names and attributes. */
function elementsOf(svg: string): string[] {
  const open: string[] = [];
  const seen: string[] = [];
  const body = svg.replace(/<style>[^<]*<\/style>/, "");
  for (const [, end, name = "", attributes = "", self] of body.matchAll(
    /<(\/?)([a-z]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>/g,
  )) {
    if (end === "/") expect(open.pop()).toBe(name);
    else {
      seen.push(`${name}${attributes}`);
      if (self !== "/") open.push(name);
    }
  }
  expect(open).toEqual([]);
  const outside = body.replaceAll(/<[^<>]*>/g, "");
  expect(outside).not.toMatch(/[<>]/);
  expect(outside).not.toMatch(/&(?!amp;|lt;|gt;|quot;)/);
  return seen;
}

test("a plot is a well-formed SVG in which names are escaped", () => {
  const svg = plot("Title <&>", RESULTS);
  const elements = elementsOf(svg);
  expect(elements[0]).toContain('xmlns="http://www.w3.org/2000/svg"');
  expect(svg).toContain("bare &lt;client&gt; &amp; &quot;friends&quot;");
});

test("a plot has a bar per contender with its ratio beside it, in light and dark colours", () => {
  const svg = plot("Title", RESULTS);
  expect(svg).toContain(">0.750x<");
  expect(svg).toContain(">1.00x<");
  expect(svg).toContain("prefers-color-scheme: dark");
});

test("no coordinate of a plot is undefined or not a number, whichever contenders ran", () => {
  const nobody = resultsOf([{ name: "ours", role: "ours", samples: [], skipped: "absent" }]);
  for (const results of [RESULTS, nobody, resultsOf([standingOf("zero", "peer", [0])])]) {
    expect(plot("Title", results)).not.toMatch(/NaN|undefined|Infinity/);
  }
});
