/**
 * One pushed body and its head. Bodies stand in the list as they were pushed. Their heads stand in a
 * second list, element by element:
 *
 *   "id pushedMs size traceparent|- contentType"     size is "-" if another program pushed the body;
 *                                                    the content type is left out when it is JSON
 */
import { randomFillSync } from "node:crypto";
import { withoutDash } from "@ropeway/core/internal";

/** An item as it is handed out. */
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
 * 72 random bits: short enough for a header full of them, long enough to be unique. Random bytes are
 * drawn for 256 ids at a time, since the call costs more than the bytes.
 */
export function newItemId(): string {
  if (spent === pool.length) {
    randomFillSync(pool);
    spent = 0;
  }
  spent += ID_BYTES;
  return withoutDash(pool.toString("base64url", spent - ID_BYTES, spent));
}

/** A name for a batch, fit to be a webhook-id: no dots. */
export function newBatchId(): string {
  return `msg_${newItemId()}`;
}

/** How the id of an item begins that another program pushed without a head. */
const FOREIGN = "x:";

/** Whether another program pushed the item, unchecked. Our own ids never begin so. */
export function isForeign({ id }: Pick<Item, "id">): boolean {
  return id.startsWith(FOREIGN);
}

/** The part of a head that follows the size. */
export function headRest(traceparent: string | undefined, contentType: string | undefined): string {
  const trace = traceparent ?? "-";
  return contentType === undefined ? ` ${trace}` : ` ${trace} ${contentType}`;
}

/** Joins heads and bodies. */
export function readItems(heads: readonly string[], bodies: readonly Buffer[]): Item[] {
  return bodies.map((body, i) => readItem(heads[i] ?? "", body));
}

/** A batch has hundreds of heads: they are cut where their spaces are, without a list of their words. */
function readItem(head: string, body: Buffer): Item {
  const idEnd = wordEnd(head, 0);
  const timeEnd = wordEnd(head, idEnd + 1);
  let from = timeEnd + 1;
  const sizeEnd = wordEnd(head, from);
  // Heads of older versions have no size.
  if (sizeEnd < head.length && isSize(head, from, sizeEnd)) from = sizeEnd + 1;
  const traceEnd = wordEnd(head, from);
  const hasTrace = traceEnd > from && !(traceEnd === from + 1 && head[from] === "-");
  return {
    id: head.slice(0, idEnd),
    body,
    pushedAt: Number(head.slice(idEnd + 1, timeEnd)) || 0, // another program may have written anything
    contentType: traceEnd < head.length ? head.slice(traceEnd + 1) : undefined,
    traceparent: hasTrace ? head.slice(from, traceEnd) : undefined,
  };
}

/** Where the word that begins at `from` ends. */
function wordEnd(head: string, from: number): number {
  const space = head.indexOf(" ", from);
  return space < 0 ? head.length : space;
}

/** Whether the word is "-" or has digits only. */
function isSize(head: string, from: number, to: number): boolean {
  if (to === from + 1 && head[from] === "-") return true;
  for (let i = from; i < to; i++) {
    const code = head.charCodeAt(i);
    if (code < 0x30 || code > 0x39) return false;
  }
  return to > from;
}
