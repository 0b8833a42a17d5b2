/** Colours, and which state has which: one table for the whole program. */

/** Written by hand: util.styleText looks at process.stdout, which need not be where we write. */
const CODES = {
  bold: ["\u001b[1m", "\u001b[22m"],
  dim: ["\u001b[2m", "\u001b[22m"],
  red: ["\u001b[31m", "\u001b[39m"],
  green: ["\u001b[32m", "\u001b[39m"],
  yellow: ["\u001b[33m", "\u001b[39m"],
  cyan: ["\u001b[36m", "\u001b[39m"],
} as const;

export type Colour = keyof typeof CODES;

/** A text with its colour. It stays apart from its escapes until it is printed, so that the text can be made printable. */
export interface Styled {
  readonly text: string;
  readonly colour: Colour | undefined;
}

/** What a line or a cell of a table is made of. */
export type Cell = string | number | Styled;

const STATES: Readonly<Record<string, Colour>> = {
  active: "cyan",
  available: "green",
  blocked: "yellow",
  busy: "yellow",
  cancelled: "yellow",
  closed: "green",
  completed: "green",
  dead: "red",
  delayed: "dim",
  disabled: "red",
  fail: "red",
  failed: "red",
  fine: "green",
  "half-open": "yellow",
  lost: "red",
  ok: "green",
  open: "red",
  paused: "yellow",
  ready: "green",
  running: "cyan",
  scheduled: "dim",
  sending: "cyan",
  stalled: "red",
  warn: "yellow",
};

/** The text in a colour. */
export function paint(colour: Colour, text: string): Styled {
  return { text, colour };
}

/** A state in its colour; text after the state's word, such as "disabled: 410", is coloured with it. */
export function stateCell(state: string): Styled {
  const [word = ""] = state.split(/[ :]/, 1);
  return { text: state, colour: STATES[state] ?? STATES[word] };
}

/** The text of a cell, without its colour. */
export function textOf(cell: Cell): string {
  return typeof cell === "object" ? cell.text : String(cell);
}

/** The text between the escapes of its colour. */
export function coloured(text: string, colour: Colour | undefined): string {
  if (colour === undefined || text === "") return text;
  const [before, after] = CODES[colour];
  return `${before}${text}${after}`;
}
