/**
 * Our few pages are rendered here: text is escaped unless it is Html already, and the one style sheet
 * is inline, so that a page loads nothing else.
 */
import { createHash } from "node:crypto";
import { STYLE } from "./style.ts";

/** Markup that needs no escaping any more. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Piece = Html | string | number | undefined | readonly Piece[];

/** A template whose values are escaped; lists are joined, undefined is nothing. */
export function html(parts: TemplateStringsArray, ...values: readonly Piece[]): Html {
  return new Html(String.raw({ raw: parts }, ...values.map(render)));
}

/** What a page is made of. */
export interface PageContent {
  readonly title: string;
  readonly lang: string;
  readonly body: Html;
}

/** A whole document. */
export function page({ title, lang, body }: PageContent): string {
  return html`<!doctype html>
<html lang="${lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>${new Html(STYLE)}</style>
</head>
<body>
${body}
</body>
</html>
`.text;
}

/** The style sheet's name in a Content-Security-Policy. */
export const STYLE_HASH: string = `sha256-${createHash("sha256").update(STYLE).digest("base64")}`;

function render(value: Piece): string {
  if (value === undefined) return "";
  if (value instanceof Html) return value.text;
  if (Array.isArray(value)) return value.map(render).join("");
  return escapeHtml(String(value));
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}
