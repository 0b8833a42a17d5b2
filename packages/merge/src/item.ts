/**
 * One pushed body and its head. Bodies stand in the list as they were pushed; what we know about them
 * stands in a second list, element by element:
 *
 *   "id pushedMs traceparent|- contentType"        the content type is left out when it is JSON
 */
import { randomFillSync } from "node:crypto";

/** An item as it is handed out. */
export interface Item {
  readonly id: string;
  readonly body: Buffer;
  /** When Redis took it, ms since 1970. */
  readonly pushedAt: number;
  /** What the pusher declared; undefined means JSON. */
  readonly contentType: string | undefined;
  /** The pusher's W3C trace context. */
  readonly traceparent: string | undefined;
}

const ID_BYTES = 9;
const pool: Buffer = Buffer.alloc(ID_BYTES * 256);
let spent: number = pool.length;

/**
 * 72 random bits: short enough for a header full of them, long enough to be unique for ever. Random
 * bytes are drawn for many at a time, since asking for them costs more than using them.
 */
export function newItemId(): string {
  if (spent === pool.length) {
    randomFillSync(pool);
    spent = 0;
  }
  spent += ID_BYTES;
  return pool.toString("base64url", spent - ID_BYTES, spent);
}

/** How the id of an item begins that was pushed without a head, by a program of the seed. */
const FOREIGN = "x:";

/** Whether nobody of ours has looked at the item yet. Our own ids never begin so. */
export function isForeign({ id }: Pick<Item, "id">): boolean {
  return id.startsWith(FOREIGN);
}

/** The part of a head that follows the id and the time. */
export function headRest(traceparent: string | undefined, contentType: string | undefined): string {
  const trace = traceparent ?? "-";
  return contentType === undefined ? ` ${trace}` : ` ${trace} ${contentType}`;
}

/** Puts heads and bodies together. */
export function readItems(heads: readonly Buffer[], bodies: readonly Buffer[]): Item[] {
  return bodies.map((body, i) => {
    const [id = "", pushedMs = "0", trace = "-", ...type] = String(heads[i] ?? "").split(" ");
    return {
      id,
      body,
      pushedAt: Number(pushedMs),
      contentType: type.length === 0 ? undefined : type.join(" "),
      traceparent: trace === "-" ? undefined : trace,
    };
  });
}
