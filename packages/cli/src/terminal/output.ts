/**
 * Everything a command prints. Results go to standard output and everything else to standard error,
 * so that a script can read the one while a person still sees the other.
 *
 *   method    terminal                      pipe                     --json
 *   list      table that fits the width     tab-separated rows       {"items": [...], "cursor": ...}
 *   details   name and value per line       the same, no colours     the object
 *   outcome   one sentence                  the same                 {"outcome": "paused", ...}
 *   result    what `render` prints          the same, no colours     one JSON value
 *   data      text as it is                 text as it is            text as it is
 *   note      standard error                standard error           nothing
 *   progress  standard error, one line      nothing                  nothing
 *   warn      standard error                standard error           {"warning": "..."}
 *
 * A verb uses `list` for what it looks up, `details` for one thing, `outcome` for what it changed, and
 * `result` for the rest. Every string is made printable here (see printable.ts): a verb passes
 * what it got and colours it with `paint` or `stateCell`, never with escapes of its own. In lists and
 * details, --json has times as ISO strings (see time.ts).
 */
import { aborted } from "../wait.ts";
import { type Cell, type Colour, coloured, type Styled, textOf } from "./colour.ts";
import { printable, printableJson, printableLines } from "./printable.ts";
import { tableLines, wrap } from "./table.ts";
import { withIsoTimes } from "./time.ts";

/** One of the process's streams, or a replacement in tests. */
export interface Sink {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  /** The width of the terminal, in characters. */
  readonly columns?: number;
  /** Of a stream: "drain" when there is room again after `write` returned false, "error" when its reader has gone. */
  once?(event: "drain" | "error", listener: () => void): unknown;
}

/** Where and how a command prints. */
export interface OutputOptions {
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly json: boolean;
  /** Whether colours are allowed; they are used on a terminal only. */
  readonly colour: boolean;
}

/** How a list of things is shown. */
export interface ListView<T> {
  /** The heads of the columns, in order, with what each shows of an item. */
  readonly columns: Readonly<Record<string, (item: T) => Cell>>;
  /** What to do next when there is nothing to show, such as "no jobs: add one with `ropeway jobs add`". */
  readonly empty: string;
  /** What to say when the page is not the last one. @default "more: repeat with --cursor <cursor>" */
  readonly more?: (cursor: string) => string;
}

/** Items to show, and where the next page begins. */
export interface ListedPage<T> {
  readonly items: readonly T[];
  readonly cursor?: string | undefined;
}

const DEFAULT_WIDTH = 80;

/** The output of one command. */
export class Output {
  readonly json: boolean;
  readonly #stdout: Sink;
  readonly #stderr: Sink;
  readonly #colours: boolean;
  readonly #unread = new AbortController();

  constructor({ stdout, stderr, json, colour }: OutputOptions) {
    this.json = json;
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#colours = colour && stdout.isTTY === true;
    stdout.once?.("error", () => this.#unread.abort());
  }

  /**
   * Aborted when the reader of standard output has gone, as in `ropeway merge watch | head -1`. A command that
   * only prints ends then. A write notices it, so a command that prints nothing does not.
   */
  get unread(): AbortSignal {
    return this.#unread.signal;
  }

  /** The result: `value` with --json, else the lines that `render` prints. */
  result<T>(value: T, render: (value: T) => void): void {
    if (this.json) this.#write(printableJson(value));
    else render(value);
  }

  /** A page of things; an empty one says what to do next. */
  list<T>(page: ListedPage<T>, { columns, empty, more = moreFrom }: ListView<NoInfer<T>>): void {
    const { items, cursor } = page;
    const listed = this.json ? items.map(withTimes) : [];
    this.result({ items: listed, cursor: cursor ?? null }, () => {
      if (items.length === 0 && cursor === undefined) this.note(empty);
      const cells = Object.values(columns);
      const rows = items.map((item) => cells.map((cellOf) => cellOf(item)));
      if (items.length > 0) this.table(Object.keys(columns), rows);
      if (cursor !== undefined) this.note(more(cursor));
    });
  }

  /** One thing: its fields with --json, else a name and a value per line. Fields without a value are left out. */
  details<T extends object>(value: T, fields: Readonly<Record<string, Cell | undefined>>): void {
    this.result(withIsoTimes(value), () => {
      const shown = Object.entries(fields).filter(([, cell]) => cell !== undefined);
      const width = Math.max(0, ...shown.map(([name]) => name.length));
      for (const [name, cell = ""] of shown) {
        const head = name.padEnd(width + 2);
        const [first = "", ...rest] = printableLines(textOf(cell)).split("\n");
        const colour = typeof cell === "object" ? cell.colour : undefined;
        this.#write(`${this.#painted(head, "dim")}${this.#painted(first, colour)}`.trimEnd());
        for (const line of rest) this.#write(`${" ".repeat(head.length)}${line}`.trimEnd());
      }
    });
  }

  /**
   * What a command has done. `outcome` is one word for scripts, `facts` say to what and how much, and
   * the sentence is for people.
   */
  outcome(outcome: string, facts: Readonly<Record<string, unknown>>, sentence: string): void {
    this.result({ outcome, ...facts }, () => this.line(sentence));
  }

  /** A line above a group of lines. */
  heading(text: string): void {
    this.line({ text, colour: "bold" });
  }

  /** One line of standard output, with or without --json; what is not printable in it is escaped. */
  line(...parts: readonly Cell[]): void {
    this.#write(parts.map((part) => this.#cell(part)).join(""));
  }

  /** A line whose text continues below its own beginning if the terminal is too narrow; in a pipe, one line. */
  paragraph(head: string, text: string): void {
    const width = this.#stdout.isTTY === true ? this.#stdout.columns || DEFAULT_WIDTH : Infinity;
    const [first = "", ...rest] = wrap(printable(text), width - head.length);
    this.#write(`${head}${first}`);
    for (const line of rest) this.#write(`${" ".repeat(head.length)}${line}`);
  }

  /** Several lines of standard output, such as a file's text; line feeds stay. */
  block(text: string): void {
    this.#write(printableLines(text.replace(/\n+$/, "")));
  }

  /** Rows under a head; in a pipe, tab-separated rows without one. Lists use `list`. */
  table(head: readonly string[], rows: readonly (readonly Cell[])[]): void {
    const cells = rows.map((row) =>
      row.map((cell) => ({
        text: printable(textOf(cell)),
        colour: typeof cell === "object" ? cell.colour : undefined,
      })),
    );
    if (this.#stdout.isTTY !== true) {
      for (const row of cells) this.#write(row.map(({ text }) => text).join("\t"));
      return;
    }
    const width = this.#stdout.columns || DEFAULT_WIDTH;
    const layout = { head, rows: cells, width, colours: this.#colours };
    for (const line of tableLines(layout)) this.#write(line);
  }

  /** A message for the user, such as progress. */
  note(text: string): void {
    if (!this.json) this.#stderr.write(`${printable(text)}\n`);
  }

  /**
   * One line that the next call writes over, such as a progress bar; an empty text removes it. Only for a
   * terminal; returns false if the output is not one.
   */
  progress(text: string): boolean {
    if (this.json || this.#stderr.isTTY !== true) return false;
    const width = (this.#stderr.columns || DEFAULT_WIDTH) - 1;
    this.#stderr.write(`\r\u001b[K${printable(text).slice(0, width)}`);
    return true;
  }

  /**
   * Text for another program, as it is, without a line feed after it. Resolves when there is room for
   * more, or when the reader has gone. On a terminal it is made printable; line feeds stay.
   */
  async data(text: string): Promise<void> {
    const written = this.#stdout.write(this.#stdout.isTTY === true ? printableLines(text) : text);
    if (written !== false || this.#stdout.once === undefined || this.unread.aborted) return;
    const drained = new Promise<void>((resolve) => this.#stdout.once?.("drain", resolve));
    await Promise.race([drained, aborted(this.unread)]); // a stream without a reader never drains
  }

  /** A question to the person at the terminal, without a line feed after it. */
  prompt(text: string): void {
    this.#stderr.write(printableLines(text));
  }

  /** A problem that did not end the command. */
  warn(text: string): void {
    const line = this.json ? printableJson({ warning: text }) : `ropeway: ${printable(text)}`;
    this.#stderr.write(`${line}\n`);
  }

  /** The error that ended the command; the stack only if there is one to show. */
  error(body: { readonly code: string; readonly message: string }, stack?: string): void {
    const trace = stack === undefined ? {} : { stack };
    const line = this.json
      ? printableJson({ error: { ...body, ...trace } })
      : `ropeway: ${printable(body.message)}`;
    this.#stderr.write(`${line}\n`);
    if (!this.json && stack !== undefined) this.#stderr.write(`${printableLines(stack)}\n`);
  }

  #cell(cell: Cell): string {
    const text = printable(textOf(cell));
    return typeof cell === "object" ? this.#painted(text, (cell as Styled).colour) : text;
  }

  #painted(text: string, colour: Colour | undefined): string {
    return this.#colours ? coloured(text, colour) : text;
  }

  #write(line: string): void {
    this.#stdout.write(`${line}\n`);
  }
}

function withTimes(item: unknown): unknown {
  return typeof item === "object" && item !== null ? withIsoTimes(item) : item;
}

function moreFrom(cursor: string): string {
  return `more: repeat with --cursor ${cursor}`;
}
