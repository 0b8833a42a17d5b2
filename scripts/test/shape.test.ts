// Compares the table "One shape for every library" of docs/internals.md with the sources.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const table = readFileSync(join(root, "docs", "internals.md"), "utf8")
  .split("\n")
  .filter((line) => line.endsWith("validated by `resolveOptions` |"))
  .map((line) => line.split("|").map((cell) => cell.trim()))
  .map(([, library = "", handles, roles, events, , page]) => ({
    library,
    handles: namesIn(handles),
    roles: namesIn(roles),
    events: namesIn(events),
    pages: page === "`Page`",
  }));

/** The names in backquotes. */
function namesIn(cell = ""): string[] {
  return [...cell.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name);
}

function filesOf(library: string): string[] {
  const folder = join(root, "packages", library, "src");
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.filter((name) => name.endsWith(".ts")).map((name) => join(folder, name));
}

test("the table has every library", () => {
  const libraries = table.map(({ library }) => library);
  expect(libraries).toEqual(["rpc", "jobs", "merge", "kit", "sync", "cluster"]);
});

test("roles.test.ts tests every role", () => {
  const walk = readFileSync(join(root, "scripts", "test", "roles.test.ts"), "utf8");
  const roles = table.flatMap((row) => row.roles);
  expect(roles.filter((role) => !walk.includes(`roleConformance("${role}"`))).toEqual([]);
});

describe.each(table)("$library", ({ library, handles, roles, events, pages }) => {
  const files = filesOf(library);
  const source = files.map((file) => readFileSync(file, "utf8")).join("\n");

  test("exports the handles, roles and events of the table", () => {
    const reference = readFileSync(join(root, "docs", "reference", "api", `${library}.md`), "utf8");
    const missing = [...handles, ...roles, ...events].filter(
      (name) => !new RegExp(`^#+ ${name}$`, "m").test(reference),
    );
    expect(missing).toEqual([]);
  });

  test("has no role that the table does not name", () => {
    const found = source.matchAll(/export class (\w+)[^{]{0,80}?\s+extends BackgroundRole/g);
    expect([...found].map(([, name]) => name).sort()).toEqual([...roles].sort());
  });

  test("lists its errors in errors.ts and validates options by resolveOptions", () => {
    expect(files.some((file) => file.endsWith("errors.ts"))).toBe(true);
    expect(source).toContain("resolveOptions(");
  });

  test("returns pages as the table says", () => {
    expect(source.includes("Promise<Page<")).toBe(pages);
  });
});
