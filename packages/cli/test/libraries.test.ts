import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const { exports } = JSON.parse(
  readFileSync(new URL("../package.json", import.meta.url), "utf8"),
) as { exports: Record<string, unknown> };

const names = Object.keys(exports)
  .filter((path) => ![".", "./internal"].includes(path))
  .map((path) => path.slice(2));

test.for(names)("ropeway/%s is the library of that name", async (name) => {
  const [inUmbrella, alone] = await Promise.all([
    import(/* @vite-ignore */ `ropeway/${name}`),
    import(/* @vite-ignore */ `@ropeway/${name}`),
  ]);
  expect(Object.keys(alone).length).toBeGreaterThan(0);
  expect({ ...inUmbrella }).toEqual({ ...alone });
});
