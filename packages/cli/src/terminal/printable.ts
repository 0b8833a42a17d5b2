/**
 * Text from outside, made safe to print. A job's name, a merge key or an error message of another
 * program may contain terminal escapes that clear the screen, change the title or fake a line of ours.
 * `Output` passes everything it prints through here, so that no command can forget to.
 *
 * Escaped are: control characters (C0, DEL, C1), characters that reorder or hide text (bidirectional
 * controls, line separators, zero-width characters, tags) and halves of surrogate pairs. The escapes
 * are those of JSON, so that JSON stays JSON.
 */

const UNPRINTABLE =
  /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The text as one line that a terminal shows and does not obey. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => SHORT[character] ?? escaped(character));
}

/** The same for a text of several lines: line feeds stay. */
export function printableLines(text: string): string {
  return text.replaceAll("\r\n", "\n").split("\n").map(printable).join("\n");
}

/** The value as one line of JSON that is safe to print. */
export function printableJson(value: unknown): string {
  return printable(JSON.stringify(value) ?? "null");
}

function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
