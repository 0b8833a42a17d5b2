// Checks the links inside the documentation. The file must exist and contain the heading that an anchor names.
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { pages } from "./pages.mjs";

/** One line per broken link. */
export function brokenLinks(root) {
  return pages(root).flatMap(({ path, text }) =>
    linksOf(text)
      .filter((target) => !leadsSomewhere(root, path, target))
      .map((target) => `${path}: ${target}`),
  );
}

function linksOf(text) {
  const prose = text.replaceAll(/^ *`{3,}[\s\S]*?^ *`{3,}/gm, "").replaceAll(/`[^`\n]*`/g, "");
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map((match) => match[1])
    .filter((target) => !/^[a-z]+:/i.test(target));
}

function leadsSomewhere(root, page, target) {
  const [path, anchor] = target.split("#");
  const file = path === "" ? join(root, page) : normalize(join(root, dirname(page), path));
  if (!existsSync(file)) return false;
  if (anchor === undefined) return true;
  return statSync(file).isFile() && anchorsOf(readFileSync(file, "utf8")).has(anchor);
}

/** The anchors that Markdown renderers give to headings. */
function anchorsOf(text) {
  const headings = [...text.matchAll(/^#{1,6} (.+)$/gm)].map((match) => match[1]);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\- _]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}
