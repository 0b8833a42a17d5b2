/**
 * One pushed body and its head. The list holds bodies as they were pushed. A second list holds their heads
 * in the same order:
 *
 *   "id pushedMs size traceparent|- contentType"     size is "-" if another program pushed the body;
 *                                                    the content type is left out when it is JSON
 */
import { randomFillSync } from "node:crypto";
import { withoutDash } from "@ropeway/core/internal";

/** An item of a batch. */
export interface Item {
  readonly id: string;
  readonly body: Buffer;
  /** When Redis stored it, ms since 1970. */
  readonly pushedAt: number;
  /** The content type that the push declared; undefined means JSON. */
  readonly contentType: string | undefined;
  /** The W3C trace context of the push. */
  readonly traceparent: string | undefined;
}

const ID_BYTES = 9;
const pool: Buffer = Buffer.alloc(ID_BYTES * 256);
let spent: number = pool.length;

/**
 * 72 random bits: short enough for a header with many ids, long enough to be unique. Random bytes are
 * drawn for 256 ids at a time, because the call costs more than the bytes.
 */
export function newItemId(): string {
  if (spent === pool.length) {
    randomFillSync(pool);
    spent = 0;
  }
  spent += ID_BYTES;
  return withoutDash(pool.toString("base64url", spent - ID_BYTES, spent));
}

/** An id for a batch, usable as a webhook-id: no dots. */
export function newBatchId(): string {
  return `msg_${newItemId()}`;
}

/** The prefix of the ids of items that another program pushed without a head. */
const FOREIGN = "x:";

/** Whether another program pushed the item, unchecked. Our own ids never have this prefix. */
export function isForeign({ id }: Pick<Item, "id">): boolean {
  return id.startsWith(FOREIGN);
}

/** The part of a head that follows the size. */
export function headRest(traceparent: string | undefined, contentType: string | undefined): string {
  const trace = traceparent ?? "-";
  return contentType === undefined ? ` ${trace}` : ` ${trace} ${contentType}`;
}

const DASH = 0x2d;

/** Joins bodies with their heads. */
export function readItems(heads: readonly string[], bodies: readonly Buffer[]): Item[] {
  return bodies.map((body, i) => {
    const head = heads[i] ?? "";
    return readItem(head, { from: 0, to: head.length }, body);
  });
}

/**
 * The items of a batch, whose heads are in one string with a line each. Hundreds of heads are parsed in place,
 * without a string for each line and each word. Returns undefined if another program has written a head of several
 * lines: then lines and bodies do not fit together.
 */
export function readBatch(heads: string, bodies: readonly Buffer[]): Item[] | undefined {
  const items: Item[] = [];
  let from = 0;
  for (const body of bodies) {
    if (from > heads.length) return undefined;
    const newline = heads.indexOf("\n", from);
    const to = newline < 0 ? heads.length : newline;
    items.push(readItem(heads, { from, to }, body));
    from = to + 1;
  }
  return from === heads.length + 1 ? items : undefined;
}

/** A range of a string. */
interface Span {
  readonly from: number;
  readonly to: number;
}

function readItem(text: string, { from, to }: Span, body: Buffer): Item {
  const idEnd = wordEnd(text, from, to);
  const timeEnd = wordEnd(text, idEnd + 1, to);
  let rest = timeEnd + 1;
  const sizeEnd = wordEnd(text, rest, to);
  if (sizeEnd < to && isSize(text, rest, sizeEnd)) rest = sizeEnd + 1; // heads of older versions have no size
  const isBare = to === rest + 1 && text.charCodeAt(rest) === DASH; // no trace and no content type, as usual
  const traceEnd = isBare ? to : wordEnd(text, rest, to);
  const hasTrace = traceEnd > rest && !(traceEnd === rest + 1 && text.charCodeAt(rest) === DASH);
  return {
    id: text.slice(from, idEnd),
    body,
    pushedAt: integerIn(text, idEnd + 1, timeEnd), // another program may have written anything
    contentType: traceEnd < to ? text.slice(traceEnd + 1, to) : undefined,
    traceparent: hasTrace ? text.slice(rest, traceEnd) : undefined,
  };
}

/** The end of the word that begins at `from`. */
function wordEnd(text: string, from: number, to: number): number {
  if (from >= to) return to;
  const space = text.indexOf(" ", from);
  return space < 0 || space > to ? to : space;
}

/** Whether the word is "-" or has digits only. */
function isSize(text: string, from: number, to: number): boolean {
  if (to === from + 1 && text.charCodeAt(from) === DASH) return true;
  return to > from && digitsEnd(text, from, to) === to;
}

/** The number in the range; 0 if it is not a number. */
function integerIn(text: string, from: number, to: number): number {
  if (to - from > 15 || digitsEnd(text, from, to) < to) return 0;
  let value = 0;
  for (let i = from; i < to; i++) value = value * 10 + text.charCodeAt(i) - 0x30;
  return value;
}

/** The end of the digits that begin at `from`. */
function digitsEnd(text: string, from: number, to: number): number {
  let i = from;
  while (i < to && text.charCodeAt(i) >= 0x30 && text.charCodeAt(i) <= 0x39) i += 1;
  return i;
}
