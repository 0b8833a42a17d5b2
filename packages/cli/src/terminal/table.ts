/**
 * Rows under a head, in the width of a terminal. Words are never broken:
 *
 *   1. every cell on one line, if all columns fit;
 *   2. else the widest columns become narrower, down to their longest word, and cells continue below;
 *   3. if the longest words do not fit side by side, columns without a value are left out, and then
 *      the column with the longest word continues below its row:
 *
 *        FIRES                     ITEMS  STATE    ATTEMPTS
 *          KEY
 *        2026-01-05T09:00:00.000Z  1      waiting  0
 *          orders http://127.0.0.1:8080/orders POST
 *
 *   4. else each row becomes a record of its own:
 *
 *        KEY      orders
 *        FIRES    2026-01-05T09:00:00.000Z
 *        ERROR    connect ECONNREFUSED 127.0.0.1:9
 *
 * Written by hand because the table libraries (cli-table3, table, columnify) break a word that is
 * longer than its column, and what we print are mostly keys, ids and URLs that people copy.
 */
import stringWidth from "string-width";
import { type Colour, coloured } from "./colour.ts";

/** A cell whose text is printable already. */
export interface TableCell {
  readonly text: string;
  readonly colour?: Colour | undefined;
}

/** A table to lay out. */
export interface TableLayout {
  readonly head: readonly string[];
  readonly rows: readonly (readonly TableCell[])[];
  /** Columns of the terminal. */
  readonly width: number;
  readonly colours: boolean;
}

const GAP = "  ";

/** A table with fewer columns is easier to read as records. */
const LEAST_COLUMNS = 3;

/** The lines of the table. */
export function tableLines(layout: TableLayout): string[] {
  const { head, rows, width, colours } = layout;
  const all = rowsOf(layout);
  const widths = columnWidths(all, head.length, width);
  if (widths !== undefined) return all.flatMap((row) => rowLines(row, widths, colours));
  const filled = head.map((_, column) => rows.some((row) => (row[column]?.text ?? "") !== ""));
  if (filled.includes(false))
    return tableLines(withColumns(layout, (_, at) => filled[at] === true));
  return twoLineRows(layout) ?? recordLines(layout);
}

function rowsOf({ head, rows }: TableLayout): (readonly TableCell[])[] {
  return [head.map((text) => ({ text, colour: "dim" as const })), ...rows];
}

function withColumns(
  { head, rows, ...rest }: TableLayout,
  keep: (cell: unknown, column: number) => boolean,
): TableLayout {
  return { ...rest, head: head.filter(keep), rows: rows.map((row) => row.filter(keep)) };
}

/** The column with the longest word below its row, if that makes the others fit. */
function twoLineRows(layout: TableLayout): string[] | undefined {
  const { head, width, colours } = layout;
  const all = rowsOf(layout);
  const words = head.map((_, column) =>
    longest(all.flatMap((row) => wordsOf(row[column]?.text ?? ""))),
  );
  const below = words.indexOf(Math.max(...words));
  const others = rowsOf(withColumns(layout, (_, column) => column !== below));
  const widths = columnWidths(others, head.length - 1, width);
  if (widths === undefined || widths.length < LEAST_COLUMNS) return undefined;
  return all.flatMap((row, at) => {
    const lower = rowLines(
      [{ text: "" }, row[below] ?? { text: "" }],
      [0, width - GAP.length],
      colours,
    );
    const shown = (row[below]?.text ?? "") === "" ? [] : lower;
    return [...rowLines(others[at] ?? [], widths, colours), ...shown];
  });
}

/** How wide each column is; undefined if their longest words do not fit side by side. */
function columnWidths(
  rows: readonly (readonly TableCell[])[],
  columns: number,
  width: number,
): number[] | undefined {
  const cellsOf = (column: number) => rows.map((row) => row[column]?.text ?? "");
  const indices = Array.from({ length: columns }, (_, column) => column);
  const natural = indices.map((column) => longest(cellsOf(column)));
  const least = indices.map((column) => longest(cellsOf(column).flatMap(wordsOf)));
  const room = width - GAP.length * (columns - 1);
  if (sum(least) > room) return undefined;
  const widths = [...natural];
  while (sum(widths) > room) {
    // The column with the most room to shrink shrinks first.
    const slack = widths.map((each, column) => each - (least[column] ?? 0));
    const column = slack.indexOf(Math.max(...slack));
    widths[column] = Math.max(least[column] ?? 0, (widths[column] ?? 0) - (sum(widths) - room));
  }
  return widths;
}

function rowLines(
  row: readonly TableCell[],
  widths: readonly number[],
  colours: boolean,
): string[] {
  const cells = widths.map((width, column) => wrap(row[column]?.text ?? "", width));
  const height = Math.max(...cells.map((lines) => lines.length));
  return Array.from({ length: height }, (_, at) => {
    const parts = cells.map((lines, column) => {
      const text = lines[at] ?? "";
      const padding = " ".repeat(Math.max(0, (widths[column] ?? 0) - stringWidth(text)));
      return (colours ? coloured(text, row[column]?.colour) : text) + padding;
    });
    return parts.join(GAP).trimEnd();
  });
}

function recordLines({ head, rows, width, colours }: TableLayout): string[] {
  const nameWidth = longest(head);
  const valueWidth = Math.max(1, width - nameWidth - GAP.length);
  return rows.flatMap((row, index) => {
    const fields = head.flatMap((name, column) => {
      const cell = row[column];
      if (cell === undefined || cell.text === "") return [];
      return rowLines([{ text: name, colour: "dim" }, cell], [nameWidth, valueWidth], colours);
    });
    return index === 0 ? fields : ["", ...fields];
  });
}

/** The text in lines of at most `width`; a longer word has a line of its own. */
export function wrap(text: string, width: number): string[] {
  if (stringWidth(text) <= width) return [text];
  const lines: string[] = [];
  let line = "";
  for (const word of wordsOf(text)) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && stringWidth(longer) > width) {
      lines.push(line);
      line = word;
    } else {
      line = longer;
    }
  }
  return [...lines, line];
}

function wordsOf(text: string): string[] {
  return text.split(" ").filter((word) => word !== "");
}

function longest(texts: readonly string[]): number {
  return texts.reduce((most, text) => Math.max(most, stringWidth(text)), 0);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
