/**
 * What a command says. Results go to standard output, everything else to standard error, so that a
 * script can read the one and a person still sees the other:
 *
 *                on a terminal            piped                    --json
 *   result       words, colours           the same, no colours     one JSON value
 *   table        aligned, with a head     tab-separated rows       (use result)
 *   note, warn   standard error, one line each; notes are silent with --json
 */
import { stripVTControlCharacters } from "node:util";

/** One of the process's streams, or a stand-in. */
export interface Sink {
  write(text: string): unknown;
  readonly isTTY?: boolean;
}

/** Where and how a command speaks. */
export interface OutputOptions {
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly json: boolean;
  /** Whether colours are welcome; on a terminal only. */
  readonly colour: boolean;
}

/** Written by hand: util.styleText looks at process.stdout, which need not be where we write. */
const COLOURS = {
  dim: ["\u001b[2m", "\u001b[22m"],
  red: ["\u001b[31m", "\u001b[39m"],
  green: ["\u001b[32m", "\u001b[39m"],
  yellow: ["\u001b[33m", "\u001b[39m"],
  cyan: ["\u001b[36m", "\u001b[39m"],
} as const;

/** The voice of a command. */
export class Output {
  readonly json: boolean;
  readonly #stdout: Sink;
  readonly #stderr: Sink;
  readonly #colour: boolean;

  constructor({ stdout, stderr, json, colour }: OutputOptions) {
    this.json = json;
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#colour = colour && stdout.isTTY === true;
  }

  /** The result: `value` with --json, else the lines that `render` makes of it. */
  result<T>(value: T, render: (value: T) => void): void {
    if (this.json) this.line(JSON.stringify(value));
    else render(value);
  }

  /** One line of standard output, with or without --json. */
  line(text: string): void {
    this.#stdout.write(`${text}\n`);
  }

  /** What is going on, for people who wait. */
  note(text: string): void {
    if (!this.json) this.#stderr.write(`${text}\n`);
  }

  /** A question, or the end of one, to whoever sits at the terminal. */
  prompt(text: string): void {
    this.#stderr.write(text);
  }

  /** What went wrong without ending the command. */
  warn(text: string): void {
    const warning = JSON.stringify({ warning: text });
    this.#stderr.write(this.json ? `${warning}\n` : `ropeway: ${text}\n`);
  }

  /** Rows under a head; a column is as wide as its widest cell. */
  table(head: readonly string[], rows: readonly (readonly string[])[]): void {
    if (this.#stdout.isTTY !== true) {
      for (const row of rows) this.line(row.join("\t"));
      return;
    }
    const all = [head.map((cell) => this.paint("dim", cell)), ...rows];
    const widths = head.map((_, column) => Math.max(...all.map((row) => width(row[column] ?? ""))));
    for (const row of all) {
      const cells = row.map(
        (cell, column) => cell + " ".repeat((widths[column] ?? 0) - width(cell)),
      );
      this.line(cells.join("  ").trimEnd());
    }
  }

  /** The text in a colour, where colours are welcome. */
  paint(colour: keyof typeof COLOURS, text: string): string {
    const [before, after] = COLOURS[colour];
    return this.#colour ? `${before}${text}${after}` : text;
  }
}

function width(text: string): number {
  return stripVTControlCharacters(text).length;
}
