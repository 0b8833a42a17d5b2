/**
 * Reads the plain calls that Ropeway clients write, which are the most frequent. Only the params have to be
 * parsed:
 *
 *   {"dl":..,"id":"..",  "rt":"..","version":"2","method":"..","to":..,"params":  {..}}
 *   head                 middle: the same in all calls of a client to a method    params
 *
 * The latest middle is kept with its parsed content. A call with the same middle, as most calls of a
 * batch have, is read with one comparison.
 */
import type { IncomingCall } from "./dialect.ts";
import { readHead, readHeadId } from "./head.ts";

/** The text before the method in a call of the usual layout. */
export const BEFORE_METHOD = ',"version":"2","method":"';
const BEFORE_TIMEOUT = '","to":';
/** The text before the params in a call of the usual layout. */
export const BEFORE_PARAMS = ',"params":';

interface Middle {
  readonly text: string;
  readonly replyTo: string;
  readonly method: string;
  readonly timeoutMs: number;
}

/** A reader of calls that have the usual layout. */
export class PlainCallReader {
  #middle: Middle = { text: "\0", replyTo: "", method: "", timeoutMs: 0 };

  /** Undefined for any other call, which is then read, or refused, as a whole. */
  read(text: string, deadline?: number): IncomingCall | undefined {
    const head = readHeadId(text, deadline);
    if (head === undefined || !text.endsWith("}")) return undefined;
    const { length } = this.#middle.text;
    if (text.slice(head.end, head.end + length) !== this.#middle.text) {
      const middle = readMiddle(text, head.end);
      if (middle === undefined) return undefined;
      this.#middle = middle;
    }
    const { text: known, method, timeoutMs, replyTo } = this.#middle;
    const params = parsed(text.slice(head.end + known.length, -1));
    if (typeof params !== "object" || params === null) return undefined;
    return {
      id: head.id,
      method,
      params,
      notification: false,
      track: false,
      trackEnd: false,
      deadline: head.deadline,
      timeoutMs,
      replyTo,
      traceparent: undefined,
      metadata: undefined,
      window: undefined,
      session: undefined,
    };
  }
}

function readMiddle(text: string, from: number): Middle | undefined {
  const head = readHead(text);
  if (head?.replyTo === undefined || !text.startsWith(BEFORE_METHOD, head.end)) return undefined;
  const methodAt = head.end + BEFORE_METHOD.length;
  const methodEnd = text.indexOf('"', methodAt);
  const method = text.slice(methodAt, methodEnd);
  if (method === "" || method.includes("\\")) return undefined;
  if (!text.startsWith(BEFORE_TIMEOUT, methodEnd)) return undefined;
  const timeoutAt = methodEnd + BEFORE_TIMEOUT.length;
  const timeoutEnd = text.indexOf(",", timeoutAt);
  if (!text.startsWith(BEFORE_PARAMS, timeoutEnd)) return undefined;
  const timeoutMs = Number(text.slice(timeoutAt, timeoutEnd));
  if (Number.isNaN(timeoutMs)) return undefined;
  const middle = text.slice(from, timeoutEnd + BEFORE_PARAMS.length);
  return { text: middle, replyTo: head.replyTo, method, timeoutMs };
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined; // decodeAnyCall() reports it
  }
}
