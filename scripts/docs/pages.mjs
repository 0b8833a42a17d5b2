// Reads the pages for users and the code blocks in them. A fence names its language: `ts` is compiled and
// run, `sh` is a shell block, `text` is output or a drawing. A fence without a language is a fault, because
// the tests could not tell whether to run it.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Every page, with its path from the root. */
export function pages(root) {
  return [...paths(root)].map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

function* paths(root) {
  for (const name of ["README.md", "CONTRIBUTING.md", "SECURITY.md"]) {
    if (existsSync(join(root, name))) yield name;
  }
  for (const name of readdirSync(join(root, "docs"), { recursive: true }).sort()) {
    if (name.endsWith(".md")) yield join("docs", name);
  }
  for (const folder of ["packages", "examples"]) {
    for (const name of readdirSync(join(root, folder)).sort()) {
      const path = join(folder, name, "README.md");
      if (existsSync(join(root, path)) && name !== "testkit") yield path; // testkit is not published
    }
  }
}

/** The fenced blocks of one page as `{ path, line, language, code }`. `line` is the line of the fence. */
export function blocksOf({ path, text }) {
  const blocks = [];
  let open;
  for (const [index, line] of text.split("\n").entries()) {
    const [, indent, , info] = /^(\s*)(`{3,})(.*)$/.exec(line) ?? [];
    if (open !== undefined && info?.trim() === "") {
      const { lines, ...block } = open;
      blocks.push({ ...block, code: lines.join("\n") });
      open = undefined;
    } else if (open !== undefined) {
      open.lines.push(line.slice(open.indent));
    } else if (info !== undefined) {
      open = { path, line: index + 1, language: info.trim(), indent: indent.length, lines: [] };
    }
  }
  if (open !== undefined) throw new Error(`${path}:${open.line}: this code block has no end`);
  return blocks;
}

/** Every block of every page. */
export function blocks(root) {
  return pages(root).flatMap(blocksOf);
}
