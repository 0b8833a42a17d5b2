// `npm run docs`: writes docs/reference/api/, one page per package, from the exports of the packages. A test
// compares the pages with the sources.
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { manifestOf, publicPackages } from "./consumer.mjs";
import { publicApi } from "./public-api.mjs";

const PAGES = join("docs", "reference", "api");

/** `Map(path -> text)` of all pages of the API reference. */
export function apiPages(root) {
  const pages = new Map();
  const rows = [];
  for (const folder of publicPackages(root)) {
    const { name, description } = manifestOf(folder);
    const entries = publicApi(folder).filter(({ exports }) => exports.some((one) => one.nodes));
    if (entries.length === 0) continue;
    const page = `${basename(folder)}.md`;
    pages.set(join(PAGES, page), pageOf(name, description, entries));
    rows.push(`| [\`${name}\`](${page}) | ${description} |`);
  }
  const index = ["# API reference", "", "One page per package, generated from the sources.", ""];
  pages.set(
    join(PAGES, "README.md"),
    `${[...index, "| package | contents |", "|---|---|", ...rows].join("\n")}\n`,
  );
  return pages;
}

function pageOf(name, description, entries) {
  const lines = [`# ${name}`, "", description, ""];
  for (const { specifier, exports } of entries) {
    if (entries.length > 1) lines.push(`## ${specifier}`, "");
    const level = entries.length > 1 ? "###" : "##";
    for (const { name, doc, declarations, from } of exports) {
      lines.push(`${level} ${name}`, "");
      if (from !== undefined) lines.push(`Re-exported from \`${from}\`.`, "");
      if (doc) lines.push(escaped(doc), "");
      if (declarations.length > 0) lines.push("```typescript", ...declarations, "```", "");
    }
  }
  return `${lines.join("\n").trimEnd()}\n`;
}

/** Doc comments are Markdown. Generics and tags are escaped, because Markdown would treat them as HTML. */
function escaped(doc) {
  return doc.replaceAll(/<(?=\w)/g, "&lt;");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  mkdirSync(join(root, PAGES), { recursive: true });
  for (const [path, text] of apiPages(root)) writeFileSync(join(root, path), text);
}
