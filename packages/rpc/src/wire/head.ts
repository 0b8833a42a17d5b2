/**
 * The first bytes of a call, readable without parsing the rest. Ropeway clients write the members in
 * this order, which is still ordinary JSON for other programs:
 *
 *   {"dl":1763245000000,"id":"0f5c...","rt":"/api/shop/reply/9b2e...","notification":true,...
 *   0     6             20     27       optional: respond into this list  optional: no response
 *
 * `dl` is the deadline in ms of Redis time: thirteen digits until the year 2286. A worker that
 * finds ten thousand outdated calls can refuse each of them with a few comparisons,
 * however large they are.
 */

/** The content of the first bytes. */
export interface Head {
  /** ms of Redis time. */
  readonly deadline: number;
  readonly id: string;
  /** The list for the response. */
  readonly replyTo: string | undefined;
  /** The call gets no response. */
  readonly silent: boolean;
  /** The position after the id and the list. */
  readonly end: number;
}

const BEFORE_DEADLINE = '{"dl":';
const BEFORE_ID = ',"id":"';
const BEFORE_REPLY = ',"rt":"';
const SILENT = [',"notification":true', ',"no_response":true'] as const;
const DEADLINE_AT = BEFORE_DEADLINE.length;
const DIGITS = 13;
const ID_AT = DEADLINE_AT + DIGITS + BEFORE_ID.length;

/** The latest first bytes, up to the id, and their deadline. Calls of the same millisecond share both. */
let latestText = "";
let latestDeadline = 0;

/** The head as text, without the end of the object. */
export function writeHead(deadline: number, id: string): string {
  return `${beginHead(deadline, id)}"`;
}

/** The head up to the id, whose prefix is given. */
export function beginHead(deadline: number, idPrefix: string): string {
  return `${BEFORE_DEADLINE}${deadline}${BEFORE_ID}${idPrefix}`;
}

/** The deadline alone, or undefined if the text does not begin with one. */
export function readDeadline(text: string): number | undefined {
  const first = text.slice(0, ID_AT); // compared in half the time that startsWith() takes
  if (first === latestText) return latestDeadline;
  if (!first.startsWith(BEFORE_DEADLINE)) return undefined;
  const deadline = Number(first.slice(DEADLINE_AT, DEADLINE_AT + DIGITS));
  if (!(deadline > 0) || !first.endsWith(BEFORE_ID) || first.length < ID_AT) return undefined;
  latestText = first;
  latestDeadline = deadline;
  return deadline;
}

/** Deadline and id, or undefined if the text does not begin with them. `known` is the deadline, if already read. */
export function readHeadId(
  text: string,
  known?: number,
): Pick<Head, "deadline" | "id" | "end"> | undefined {
  const deadline = known ?? readDeadline(text);
  if (deadline === undefined) return undefined;
  const idEnd = text.indexOf('"', ID_AT);
  const id = text.slice(ID_AT, idEnd);
  if (idEnd < 0 || id === "" || id.includes("\\")) return undefined;
  return { deadline, id, end: idEnd + 1 };
}

/** The whole head, or undefined if the text has another layout. */
export function readHead(text: string): Head | undefined {
  const read = readHeadId(text);
  if (read === undefined) return undefined;
  const { deadline, id } = read;
  let at = read.end;
  let replyTo: string | undefined;
  if (text.startsWith(BEFORE_REPLY, at)) {
    const end = text.indexOf('"', at + BEFORE_REPLY.length);
    if (end < 0) return undefined;
    replyTo = text.slice(at + BEFORE_REPLY.length, end);
    if (replyTo.includes("\\")) return undefined; // escaped, so only a parser can read it
    at = end + 1;
  }
  const silent = text.startsWith(SILENT[0], at) || text.startsWith(SILENT[1], at);
  return { deadline, id, replyTo, silent, end: at };
}
